"""Presets: ordinary fields, filled in where nothing was said; the same fields written out decide the same."""

import pytest

from portal.kit.errors import InvalidInput
from scheduling.domain.demand import TaskType
from scheduling.domain.presets import FILLS, Preset, expand
from scheduling.domain.request import policy_of
from scheduling.domain.spec import Context, parse
from scheduling.domain.spec_fields import SUPPORTED

REGIONS = {"east": ["a"], "west": ["b"]}


def read(**fields):
    context = Context(regions=REGIONS, needs_price=False)
    return parse({"run": "echo hi", **fields}, context=context)


def preset(name, **fields):
    placement = {"preset": name, **fields.pop("placement", {})}
    return read(placement=placement, **fields).spec.task


def test_inference_is_near_and_fast():
    task = preset("inference", placement={"latency_to": "east"})
    assert task.task_type == TaskType.INFERENCE
    assert (task.placement.pick, task.placement.max_latency_us, task.lease_class) == ("fastest", 100_000, "fast")


def test_training_weighs_time_cost_and_transfer():
    task = preset("training")
    assert task.task_type == TaskType.TRAINING
    assert policy_of(task).weights == {"time": 0.4, "cost": 0.4, "transfer": 0.2}


def test_night_batch_takes_what_is_idle():
    task = preset("night")
    assert (task.resources.use_spot, task.placement.slack_s) == (True, 12 * 3_600)
    assert policy_of(task).weights == {"cost": 0.7, "green": 0.3}
    assert preset("night", placement={"pick": "cheapest"}).placement.slack_s == 0, "no green hours to wait for"
    assert task.task_type == TaskType.CUSTOM, "any kind of work"


def test_docking_goes_to_green_power_and_is_tried_again():
    task = preset("docking")
    assert (task.task_type, task.placement.pick, task.resources.use_spot) == ("simulation", "greenest", True)
    assert "error" in task.retry_on


def test_rendering_weighs_cost_more_than_time():
    weights = policy_of(preset("render")).weights
    assert weights["cost"] > weights["time"] > 0


def test_resident_data_stays_in_its_region():
    data = [{"url": "https://a.example/x", "path": "x", "region": "east", "size_bytes": 1}]
    assert preset("resident", inputs=data).placement.regions == ("east",)
    assert preset("resident", placement={"regions": ["west"]}, inputs=data).placement.regions == ("west",)
    with pytest.raises(InvalidInput) as refused:
        preset("resident")
    assert [(f.path, f.code) for f in refused.value.errors] == [("placement.regions", "field_required")]


@pytest.mark.parametrize("name", list(Preset))
def test_what_is_written_wins_and_the_expanded_spec_says_the_same(name):
    own = {"pick": "cheapest", "latency_to": "east", "regions": ["east"]}
    task = preset(name.value, placement=own, task_type="data")
    assert (task.placement.pick, task.placement.weights_micro, task.task_type) == ("cheapest", {}, "data")
    parsed = read(placement={"preset": name.value, "latency_to": "east", "regions": ["east"]})
    shown = parsed.spec.outward()
    assert shown["placement"]["preset"] == name
    again = parse(
        {k: v for k, v in shown.items() if v is not None}, context=Context(regions=REGIONS, needs_price=False)
    )
    assert again.spec.outward() == shown
    written = {**shown["placement"]}
    del written["preset"]
    plain = parse(
        {**{k: v for k, v in shown.items() if v is not None}, "placement": written},
        context=Context(regions=REGIONS, needs_price=False),
    )
    assert policy_of(plain.spec.task) == policy_of(parsed.spec.task)


def test_an_unknown_preset_is_named_and_wrong_shapes_are_left_to_the_reader():
    with pytest.raises(InvalidInput) as refused:
        read(placement={"preset": "trainign"})
    assert [(f.path, f.code) for f in refused.value.errors] == [("placement.preset", "bad_value")]
    for placement in ({"preset": 5}, "night", None):
        assert expand({"placement": placement}, carried_out=SUPPORTED) == {"placement": placement}
    odd = {"placement": {"preset": "night"}, "resources": "many"}
    assert expand(odd, carried_out=SUPPORTED)["resources"] == "many"


def test_fields_that_are_not_carried_out_yet_are_left_out():
    made = expand({"placement": {"preset": "night"}}, carried_out={"placement": ("pick",), "resources": ()})
    assert made["placement"] == {"preset": "night", "pick": "weights"}
    assert made["resources"] == {}
    assert set(FILLS) == set(Preset)
