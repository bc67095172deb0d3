"""Deletes what older releases kept and nothing reads any more."""

from router.config.load import LoadedConfig
from router.contract.stores import StoreUnusable
from router.stores.sqlite.forget import forget_word_hashes
from router.stores.sqlite.schemas import find_copies


def delete_leftovers(loaded: LoadedConfig, *, with_ledger: bool) -> list[str]:
    """Hashes of what people typed, in files of their own and in copies of the ledger. Returns what is to be said of that."""
    table, deleted, lines = loaded.personal_table, list[str](), list[str]()
    if table is not None:
        for file in (table, table.with_name(f"{table.name}.before")):
            try:
                file.unlink()
                deleted.append(str(file))
            except FileNotFoundError:
                continue
            except OSError as error:
                lines.append(f"{file}: holds hashes of words that nothing reads; delete it ({error.strerror})")
    for copy in find_copies(loaded.ledger_path) if with_ledger and loaded.ledger_path is not None else ():
        try:
            deleted += [f"rows in {copy}"] * bool(forget_word_hashes(copy))
        except StoreUnusable as error:
            lines.append(str(error))
    if deleted:
        lines.append(f"deleted hashes of words that nothing reads any more: {', '.join(deleted)}")
    return lines
