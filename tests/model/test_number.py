"""Numbers in text: plain digits only."""

import pytest

from pyrula.model.number import read_number, read_whole

STRANGE = [
    "",
    " ",
    "1_000",
    "٣",
    "1٣",
    "１",
    " 1",
    "1 ",
    "1\n",
    "0x10",
    "nan",
    "inf",
    "-inf",
    "--1",
    "+",
    "1,5",
    "²",
]


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("007", 7), ("-3", -3), ("+4", 4), ("9" * 30, int("9" * 30))]
)
def test_whole_numbers_are_read(text, number):
    assert read_whole(text) == number
    assert type(read_whole(text)) is int


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0.0), ("1.5", 1.5), (".5", 0.5), ("5.", 5.0), ("-2e3", -2000.0), ("1E-2", 0.01)],
)
def test_numbers_are_read(text, number):
    assert read_number(text) == number


@pytest.mark.parametrize("text", [*STRANGE, "1.0", "1e3", "9" * 5000])
def test_what_is_no_whole_number_is_refused(text):
    with pytest.raises(ValueError):
        read_whole(text)


@pytest.mark.parametrize("text", [*STRANGE, ".", "e5", "1e", "1.2.3"])
def test_what_is_no_number_is_refused(text):
    with pytest.raises(ValueError):
        read_number(text)
