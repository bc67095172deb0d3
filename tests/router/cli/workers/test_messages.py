"""Messages between processes: what is written is what is read."""

import pytest

from router.cli.workers.messages import Kind, Taken, Topic, read_message, write_body, write_message
from router.config.faults import ConfigError, Fault


def test_a_message_is_one_line_and_is_read_as_it_was_written():
    line = write_message(Kind.ANSWER, Topic.RELOAD, 3, write_body({"text": "two\nlines"}))

    assert line.count(b"\n") == 1
    message = read_message(line)
    assert (message.kind, message.topic, message.number) == (Kind.ANSWER, Topic.RELOAD, 3)
    assert bytes(message.body) == b'{"text":"two\\nlines"}'


def test_faults_of_a_config_are_raised_where_they_are_read():
    taken = Taken.refused(ConfigError("config.yaml", [Fault("a.b", "is wrong", "do this")]))

    with pytest.raises(ConfigError) as raised:
        taken.get()

    assert raised.value.source == "config.yaml"
    assert raised.value.faults == [Fault("a.b", "is wrong", "do this")]
