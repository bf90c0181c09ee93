"""The window of a partition: order per key, the finished prefix, stops; and how a flight is shared out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyrula.kafka.partition import Partition, adopt, take
from pyrula.kafka.window import Item, Window


def _window(*orders: str | None) -> Window:
    window = Window()
    for offset, order in enumerate(orders):
        window.read(Item(offset, f"run-{offset}", order, size=10))
    return window


def _take(window: Window, most: int = 100) -> list[int]:
    return [item.offset for item in window.take(most)]


def _finish(window: Window, *offsets: int) -> None:
    for offset in offsets:
        window.finish(window.items[offset])


def test_a_record_waits_for_the_one_before_it_of_its_key_and_others_pass():
    window = _window("a", "a", "b", "a", None, None)
    assert _take(window) == [0, 2, 4, 5]
    _finish(window, 2)
    assert _take(window) == []
    _finish(window, 0)
    assert _take(window) == [1]
    _finish(window, 1)
    assert _take(window) == [3]


def test_what_may_be_committed_ends_before_the_first_that_is_not_finished():
    window = _window("a", "b", "c")
    assert window.committable == 0
    _take(window)
    _finish(window, 2, 1)
    assert window.committable == 0
    _finish(window, 0)
    assert window.committable == 3
    assert window.span == 0 and window.size == 0


def test_offsets_that_a_topic_leaves_out_are_passed():
    window = Window()
    assert window.committable is None
    for offset in (5, 9, 12):
        window.read(Item(offset, str(offset)))
    _take(window)
    _finish(window, 5)
    assert window.committable == 9
    _finish(window, 12, 9)
    assert window.committable == 13


def test_nothing_after_a_stop_starts_and_what_is_before_it_goes_on():
    window = _window("a", "b", "a", "c")
    assert _take(window, 2) == [0, 1]
    window.stop(window.items[1], "it failed")
    assert 1 not in window.open
    _finish(window, 0)
    assert _take(window) == []
    assert window.committable == 1
    window.go_on(window.items[1])
    assert 1 in window.open
    _finish(window, 1)
    assert _take(window) == [2, 3]


def test_a_record_that_no_run_can_be_made_of_holds_the_prefix_until_it_is_finished():
    window = _window(None)
    window.refuse(bad := Item(1, "run-1"))
    window.read(Item(2, "run-2"))
    window.stop(bad, "no JSON")
    assert _take(window) == [0]
    _finish(window, 0)
    assert window.committable == 1
    window.finish(bad)
    assert _take(window) == [2]


def test_runs_that_an_earlier_owner_left_open_keep_their_keys_turn():
    window = _window("a")  # finished in the store, as its follower is open; this owner does not know yet
    window.read(Item(1, "run-1", "a"), is_open=True)
    window.read(Item(2, "run-2", "a"))
    assert _take(window) == [0]
    _finish(window, 0)
    assert _take(window) == []
    _finish(window, 1)
    assert _take(window) == [2]


def test_a_left_run_that_ends_before_its_turn_passes_the_turn_on():
    window = _window("a")
    window.read(Item(1, "run-1", "a"), is_open=True)
    window.read(Item(2, "run-2", "a"))
    assert _take(window) == [0]
    _finish(window, 1)
    assert _take(window) == []
    _finish(window, 0)
    assert _take(window) == [2]


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.sampled_from([None, "a", "b", "c"]), st.booleans()),
        st.tuples(st.just("take"), st.integers(0, 5), st.none()),
        st.tuples(st.just("finish"), st.integers(0, 50), st.none()),
    ),
    max_size=80,
)


@given(_steps)
def test_whatever_happens_order_is_kept_and_nothing_unfinished_is_committed(steps):
    window, finished, items = Window(), set[int](), dict[int, Item]()
    for verb, value, flag in steps:
        if verb == "read":
            offset = len(items)
            items[offset] = Item(offset, str(offset), value, size=1)
            left = (
                flag
                and value is not None
                and all(
                    other.order != value
                    for other in items.values()
                    if other.offset not in finished and other.offset != offset
                )
            )
            window.read(items[offset], is_open=left)
        elif verb == "take":
            for item in window.take(value):
                same = [o for o in items.values() if o.order == item.order and o.offset < item.offset]
                assert item.order is None or all(o.offset in finished for o in same)
        else:
            flying = sorted(window.open)
            if flying:
                offset = flying[value % len(flying)]
                window.finish(items[offset])
                finished.add(offset)
        unfinished = [offset for offset in items if offset not in finished]
        assert window.committable == (min(unfinished) if unfinished else len(items) or None)
        assert window.size == len(unfinished)
        assert window.waiting + len(window.open) == len(unfinished)
    while unfinished := [offset for offset in items if offset not in finished]:
        list(window.take(100))
        assert window.open, f"{unfinished} wait for nobody"
        for offset in list(window.open):
            window.finish(items[offset])
            finished.add(offset)


def _partition(number: int, inherited: int = 0, *, adopted: bool = False) -> Partition:
    runs = {f"{number}/{n}" for n in range(inherited)}
    return Partition(number, f"t/{number}", f"w@t/{number}", runs, adopted=adopted)


def test_a_partition_is_adopted_when_its_open_runs_have_room():
    mine, small, large = _partition(0, 6, adopted=True), _partition(1, 3), _partition(2, 9)
    assert adopt([mine, small, large], 0, 10) == [small]
    assert adopt([mine, small, large], 2, 10) == []
    assert adopt([mine, small, large], 0, 18) == [small, large]


def test_more_than_a_flight_of_open_runs_is_adopted_alone():
    assert adopt([large := _partition(0, 50), _partition(1, 60)], 0, 10) == [large]


def test_partitions_share_the_room_evenly_and_what_one_leaves_goes_to_the_others():
    few, many = _partition(0), _partition(1)
    few.window.read(Item(0, "few"))
    for offset in range(20):
        many.window.read(Item(offset, f"many-{offset}"))
    taken = [partition.number for partition, _ in take([few, many], 10)]
    assert taken.count(0) == 1 and taken.count(1) == 9


def test_a_partition_is_paused_when_enough_was_read_and_goes_on_at_half_of_it():
    partition = _partition(0)
    for offset in range(500):
        assert not partition.look_paused(16)
        partition.window.read(Item(offset, str(offset)))
    assert partition.look_paused(16)
    partition.paused = True
    for item in list(partition.window.take(250)):
        assert partition.look_paused(16)
        partition.window.finish(item)
    list(partition.window.take(1))
    assert not partition.look_paused(16)
