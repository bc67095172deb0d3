"""The figures of several workers on one page."""

from router.edge.control.exposition import write_figures
from router.edge.control.worker_figures import WORKER, join, pack
from router.telemetry.metrics import Buckets


def figures(count: int) -> bytes:
    samples = {"tandem_hops_total": {(): count}, "tandem_tokens_total": {("input",): 2.0 * count}}
    return pack(samples, {"tandem_request_seconds": Buckets((0.1, 1.0), {("fast",): [count, 0, 0, 0.5]})})


def test_each_series_names_its_worker_and_none_is_summed_up():
    text = write_figures(*join({"1": figures(3), "2": figures(4)}), "", (WORKER,))[0].decode()

    assert 'tandem_hops_total{worker="1"} 3.0' in text
    assert 'tandem_hops_total{worker="2"} 4.0' in text
    assert 'tandem_tokens_total{kind="input",worker="2"} 8.0' in text
    assert 'tandem_request_seconds_bucket{le="1.0",tier="fast",worker="1"} 3.0' in text


def test_a_worker_that_did_not_answer_is_left_out():
    samples, histograms = join({"2": figures(1)})

    assert samples["tandem_hops_total"] == {("2",): 1.0}
    assert list(histograms["tandem_request_seconds"].rows) == [("fast", "2")]


def test_no_worker_that_answers_is_an_empty_page():
    assert "worker=" not in write_figures(*join({}), "", (WORKER,))[0].decode()
