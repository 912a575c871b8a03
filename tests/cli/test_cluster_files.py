"""The file that describes a cluster for `ray up`: each mistake is one sentence, before anything is done."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from heliostat.autoscaler.launcher import command
from heliostat.autoscaler.launcher.checks import ConfigError
from heliostat.autoscaler.launcher.config import load
from heliostat.autoscaler.launcher.provider_choice import provider_of

pytestmark = pytest.mark.heliostat_only("our own sentences")

GOOD = """
cluster_name: team
provider: {type: local, head_ip: 10.0.0.1, worker_ips: [10.0.0.2, 10.0.0.3]}
"""

CLOUD = """
cluster_name: team
provider: {type: aws, region: us-west-2}
available_node_types:
  head: {resources: {}, node_config: {InstanceType: m5.large}}
"""

MISTAKES = {
    "not YAML": ("a: [", "is not YAML"),
    "no mapping": ("- a", "it must be a mapping that begins with `cluster_name:`."),
    "no name": ("provider: {type: local}", "`cluster_name` is missing."),
    "a name that is a path": (
        GOOD.replace("team", "../x"),
        "`cluster_name` is '../x': write a name of letters, digits, `-`, `_` and `.`.",
    ),
    "no provider": ("cluster_name: team", "`provider` is missing."),
    "no type": (GOOD.replace("type: local, ", ""), "`provider` has no `type`"),
    "another cloud": (
        GOOD.replace("local", "azure"),
        "`provider.type` is 'azure', which is not supported: aws and local are.",
    ),
    "a cloud without kinds of machines": (
        GOOD.replace("local", "aws"),
        "`available_node_types` is missing",
    ),
    "no kind for the head": (CLOUD, "`head_node_type` is missing: it must be one of"),
    "another kind for the head": (
        CLOUD + "head_node_type: haed",
        "`head_node_type` is 'haed': it must be one of `available_node_types`. Did you mean 'head'?",
    ),
    "a misspelt key of a kind": (
        CLOUD.replace("node_config", "nodeconfig") + "head_node_type: head",
        "`available_node_types.head`: `nodeconfig` is not a key",
    ),
    "a quantity that is none": (
        CLOUD.replace("resources: {}", "resources: {CPU: many}") + "head_node_type: head",
        "`available_node_types.head`: `resources.CPU` is 'many': write a number of 0 or more.",
    ),
    "more at least than at most": (
        CLOUD + "  small: {min_workers: 3}\nhead_node_type: head",
        "`min_workers` of `available_node_types` are 3 together, and `max_workers` is 2.",
    ),
    "min_workers of a cloud": (
        CLOUD + "min_workers: 1",
        "`min_workers` stands in each of `available_node_types`.",
    ),
    "kinds of old releases": (
        CLOUD + "head_node: {InstanceType: m5.large}",
        "`head_node` is of old releases: write `available_node_types`.",
    ),
    "no head": (GOOD.replace("head_ip: 10.0.0.1, ", ""), "`provider.head_ip` must name"),
    "no workers": (
        "cluster_name: a\nprovider: {type: local, head_ip: b}",
        "`provider.worker_ips` must be a list of machines; `[]` for none.",
    ),
    "a machine twice": (
        GOOD.replace("10.0.0.3", "10.0.0.2"),
        "10.0.0.2 is there twice; each machine has one node.",
    ),
    "the head as a worker": (GOOD.replace("10.0.0.3", "10.0.0.1"), "10.0.0.1 is there twice"),
    "an option as a machine": (
        GOOD.replace("10.0.0.3", "-oProxyCommand=x"),
        "'-oProxyCommand=x' is not the address of a machine.",
    ),
    "a coordinator": (
        GOOD.replace("head_ip", "coordinator_address: a, head_ip"),
        "`provider.coordinator_address` is not supported",
    ),
    "a misspelt key": (
        GOOD + "setup_comands: []",
        "`setup_comands` is not a key of a cluster's file. Did you mean 'setup_commands'?",
    ),
    "a misspelt key of the provider": (
        GOOD.replace("worker_ips", "workers_ips"),
        "`provider.workers_ips` is not a key of `type: local`. Did you mean 'worker_ips'?",
    ),
    "a misspelt key of auth": (GOOD + "auth: {sshuser: a}", "Did you mean 'ssh_user'?"),
    "no key file": (
        GOOD + "auth: {ssh_private_key: /nowhere/key}",
        "`auth.ssh_private_key` is '/nowhere/key', and there is no such file.",
    ),
    "one command as a text": (
        GOOD + "setup_commands: pip install x",
        "`setup_commands` must be a list of texts, one a line after `- `.",
    ),
    "a mount that is not there": (
        GOOD + "file_mounts: {/data: /nowhere}",
        "`file_mounts`: '/data' is '/nowhere', and there is no such file.",
    ),
    "too few": (GOOD + "min_workers: -1", "`min_workers` is -1: write a whole number"),
    "more than may be": (
        GOOD + "min_workers: 2\nmax_workers: 1",
        "`min_workers` (2) is more than `max_workers` (1).",
    ),
    "a container without a name": (
        GOOD + "docker: {image: a}",
        "`docker.container_name` is None: write a name of letters, digits, `-`, `_` and `.`.",
    ),
    "a container's name that a shell would read": (
        GOOD + "docker: {image: a, container_name: 'a; b'}",
        "`docker.container_name` is 'a; b': write a name",
    ),
    "an image for the head only": (
        GOOD + "docker: {head_image: a, container_name: b}",
        "`docker` names an image for the head or for the others only",
    ),
    "a misspelt key of docker": (
        GOOD + "docker: {imgae: a}",
        "`imgae` is not a key of a cluster's file. Did you mean 'image'?",
    ),
    "containers in a cloud": (
        CLOUD + "head_node_type: head\ndocker: {image: a, container_name: b}",
        "`docker` goes with `type: local`",
    ),
    "kinds of machines": (
        GOOD + "available_node_types: {a: {}}",
        "`available_node_types` is not for `type: local`",
    ),
}


@pytest.mark.contract("F6.29")
@pytest.mark.parametrize("name", list(MISTAKES))
def test_a_mistake_is_one_sentence(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text, said = MISTAKES[name]
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    assert command.main(["get-head-ip", str(file)], "ray") == 1
    told = capfd.readouterr().err
    assert told.startswith(str(file))
    assert said in told
    assert told.count("\n") == 1


@pytest.mark.contract("F6.29")
def test_a_file_that_is_not_there_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    assert command.main(["up", "/nowhere/cluster.yaml", "-y"], "ray") == 1
    assert (
        capfd.readouterr().err
        == "/nowhere/cluster.yaml cannot be read: No such file or directory.\n"
    )


@pytest.mark.contract("F6.29", "F6.30")
def test_what_a_file_asks_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "cluster.yaml"

    def workers(more: str) -> tuple[list[str], list[str]]:
        file.write_text(GOOD + more)
        config = load(str(file))
        provider = provider_of(config)
        notes = [*config.notes, *provider.notes]
        return [one.address for one in provider.take_workers()], notes

    assert workers("") == (["10.0.0.2", "10.0.0.3"], [])
    assert workers("min_workers: 1") == (["10.0.0.2"], [])
    found, notes = workers("min_workers: 3\nmax_workers: 9\nidle_timeout_minutes: 5")
    assert len(found) == 2
    assert [note.removeprefix(f"{file}: ") for note in notes] == [
        "`idle_timeout_minutes` has no effect: all machines of a list stay in the cluster.",
        "`min_workers` is 3, and there are 2 `worker_ips`.",
        "`max_workers` is 9, and there are 2 `worker_ips`.",
    ]
    file.write_text(GOOD.replace("worker_ips", "external_head_ip: 1.2.3.4, worker_ips"))
    head = provider_of(load(str(file), cluster_name="other")).head()
    assert head is not None
    assert (head.address, head.inner) == ("1.2.3.4", "10.0.0.1")
    with pytest.raises(ConfigError, match="`max_workers` is -2"):
        load(str(file), max_workers=-2)


@pytest.mark.contract("F6.29")
def test_nobody_is_asked_where_nobody_can_answer(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    file = tmp_path / "cluster.yaml"
    file.write_text(GOOD)
    assert command.main(["down", str(file)], "ray") == 1
    assert "Say --yes where nobody can be asked." in capfd.readouterr().err
