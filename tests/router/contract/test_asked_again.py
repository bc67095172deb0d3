"""Whether a person had to ask again."""

from router.contract.asked_again import asks_again


def test_new_words_ask_again_if_they_begin_with_a_failure_or_repeat_the_ask(subtests):
    for before, after, is_again in [
        ("fix the parser", "it is still wrong", True),
        ("fix the parser", "That doesn’t work, same error", True),
        ("fix the failing parser test", "Fix the failing parser test!", True),
        ("fix the parser", "now add a flag to the command", False),
        ("yes", "yes", False),
        ("fix the login redirect", "it still does not work", True),
        ("fix the login redirect", "the login redirect is still broken", True),
        ("fix the login redirect", "no, that's wrong", True),
        ("commit", "commit and continue", False),
        ("commit and continue", "commit and continue", False),
        ("fix the login redirect", "immer noch kaputt", True),
        ("fix the login redirect", "I tried and it doesn't work", True),
        ("fix the login redirect", "the tests still fail", True),
        ("fix the login redirect", "you forgot the import", True),
        ("fix the login redirect", "please try again", True),
        ("fix the login redirect", "I still get the same error:\n" + "a line of a trace\n" * 200, True),
        ("rename foo to bar in utils.py", "The search page does not work in Safari", False),
        ("rename foo to bar in utils.py", "This page does not work in Safari", False),
        ("fix the search page", "The settings page does not work", False),
        ("change the header colour", 'add a "try again" button', False),
        ("change the header colour", "add a try again button", False),
        ("what is the port?", "Customers report the export is not working", False),
        ("fix the parser", "thanks, next: " + "a long text " * 40 + "that says still wrong at its end", False),
    ]:
        with subtests.test(before=before, after=after, is_again=is_again):
            assert asks_again(after, before) is is_again
