-- The column `decision` holds the facts of a decision, in version 2 of its JSON (see docs/reference/ledger.md): half the
-- size. Rows written before keep the whole explanation, which has no version. Every reader of Tandem's takes both; an older
-- Tandem would not, and is therefore refused by the version of the schema.
SELECT 1;
