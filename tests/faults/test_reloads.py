"""C3, C4: unnoticed reloads under load, every 100 ms, one in three faulty."""

from tests.faults.reloads import CALLERS, SOCKETS, STREAMS, run


async def test_reloads_under_callers_streams_and_sockets_fail_no_request_and_free_old_plans(tmp_path):
    seen = await run(3.0, tmp_path)

    assert seen.failures == []
    assert seen.plans == 0
    assert seen.gone_addresses == 0
    assert seen.served > CALLERS + STREAMS + SOCKETS
    assert seen.refused > 0
    assert seen.reloads - seen.refused > 1
