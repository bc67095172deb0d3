from router.contract.caller import LOCAL, Caller, SessionKey


def test_the_same_session_of_another_caller_is_another_and_so_is_the_next_that_began_alike():
    keys = [SessionKey(LOCAL, "s"), SessionKey(Caller("ann"), "s"), SessionKey(LOCAL, "t"), SessionKey(LOCAL, "s", 1)]

    assert len(set(keys)) == len({str(key) for key in keys}) == 4
    assert SessionKey(Caller("local"), "s") == keys[0]
