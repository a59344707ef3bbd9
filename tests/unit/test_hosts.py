"""Which machines a person means: ``--hosts`` and cluster.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from shanty.cli.hosts import from_file, from_hosts, render
from shanty.errors import UsageError
from shanty.spec.cluster import Cluster, Node
from shanty.spec.codec import from_dict, to_dict


def one(text: str) -> Node:
    (node,) = from_hosts(text).nodes
    return node


@pytest.mark.parametrize(
    ("text", "address", "user", "port"),
    [
        ("n1", "n1", "", 0),
        ("user@n1", "n1", "user", 0),
        ("n1:2222", "n1", "", 2222),
        ("nvidia@192.168.0.11:22", "192.168.0.11", "nvidia", 22),
        ("fe80::1%eno1", "fe80::1%eno1", "", 0),
        ("[fe80::1]:2222", "fe80::1", "", 2222),
        ("me@[fe80::1]", "fe80::1", "me", 0),
        ("me@corp.example@n1", "n1", "me@corp.example", 0),
        ("local", "local", "", 0),
    ],
)
def test_an_entry(text: str, address: str, user: str, port: int) -> None:
    node = one(text)
    assert (node.name, node.address, node.user, node.port) == (address, address, user, port)
    assert node.is_local == (text == "local")


def test_the_order_is_kept_and_spaces_do_not_matter() -> None:
    cluster = from_hosts(" b, user@a:2222 ,c,")
    assert [n.login for n in cluster.nodes] == ["b", "user@a", "c"]


def test_one_address_behind_two_ports_gives_two_names() -> None:
    cluster = from_hosts("127.0.0.1:2201,127.0.0.1,n3")
    assert [n.name for n in cluster.nodes] == ["127.0.0.1:2201", "127.0.0.1:22", "n3"]


@pytest.mark.parametrize(
    "text",
    [
        "", " , ", "a:", "a:0", "a:65536", "a:x", "@a", "-oProxyCommand=x", "a b", "a;b", "$(x)",
        "u@", "-l@a", "u;x@a", "a/b", "[fe80::1", "'a'", "a\nb", "u@local", "local:22", "a:\u0662",
    ],
)  # fmt: skip
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as told:
        from_hosts(text)
    assert told.value.hint


@pytest.mark.parametrize("text", ["n1,n2,n1", "n1,N1", "n1,u@n1", "n1,n1:22", "local,local"])
def test_the_same_machine_twice_is_refused_with_both_places(text: str) -> None:
    with pytest.raises(UsageError, match=r"--hosts entry [23]: .*\(--hosts entry 1\)"):
        from_hosts(text)


FULL = """# my boards
interface = "eno1"

[defaults]
user = "nvidia"
python = "~/venv/bin/python"

[nodes.n1]
address = "192.168.0.11"

[nodes."rack.n2"]
address = "192.168.0.12"
user = "other"
port = 2222
data = "/mnt/cats"
devices = [0, 1]
interface = "eth0"
workdir = "/home/other/runs"
"""


def written(folder: Path, text: str) -> Path:
    (folder / "cluster.toml").write_text(text, "utf-8")
    return folder / "cluster.toml"


def test_a_file_with_everything(tmp_path: Path) -> None:
    cluster = from_file(written(tmp_path, FULL))
    first, second = cluster.nodes
    assert first == Node(
        name="n1", address="192.168.0.11", user="nvidia", python="~/venv/bin/python"
    )
    assert second == Node(
        name="rack.n2",
        address="192.168.0.12",
        user="other",
        port=2222,
        python="~/venv/bin/python",
        workdir="/home/other/runs",
        data="/mnt/cats",
        devices=("0", "1"),
        interface="eth0",
    )
    assert [cluster.interface_of(n) for n in cluster.nodes] == ["eno1", "eth0"]


def test_what_is_rendered_reads_back_and_travels_as_json(tmp_path: Path) -> None:
    cluster = from_file(written(tmp_path, FULL))
    assert from_file(written(tmp_path, render(cluster))) == cluster
    assert from_dict(Cluster, to_dict(cluster)) == cluster
    plain = from_hosts("n1,user@n2:2222")
    text = render(plain)
    assert from_file(written(tmp_path, text)) == plain
    for key in ("user", "port", "data", "devices", "interface"):
        assert f"# {key} = " in text
    cpu = Cluster(nodes=(Node(name="a", address="a", devices=("cpu", "cpu")),))
    assert from_file(written(tmp_path, render(cpu))) == cpu


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("port = 2222", "prot = 2222", "line 14: unknown key nodes.rack.n2.prot"),
        ('interface = "eno1"', 'interfaces = "eno1"', "line 2: unknown key interfaces"),
        ("[defaults]", "[default]", "line 4: unknown key default"),
        ('user = "nvidia"', 'address = "x"', "line 5: two nodes cannot have one address"),
        ("port = 2222", 'port = "2222"', "line 14: port = '2222' is not accepted"),
        ("port = 2222", "port = true", "line 14: port = True is not accepted"),
        ("port = 2222", "port = 70000", "line 14: port = 70000"),
        ("[0, 1]", '["cuda"]', "line 16: devices = "),
        ("[0, 1]", "[1, 1]", "line 16: devices names a GPU twice"),
        ("[0, 1]", '[0, "cpu"]', "line 16: devices = "),
        ('user = "other"', "user = 5", "line 13: user = 5"),
        ('user = "other"', 'user = "-x"', "line 11: '-x' cannot be a node's user"),
        ('"192.168.0.11"', '"a b"', "line 8: 'a b' cannot be a node's address"),
        ('"192.168.0.11"', '"-oX"', "line 8: '-oX' cannot be a node's address"),
        ('address = "192.168.0.11"', "", "line 8: node n1 has no address"),
        ('[nodes."rack.n2"]', '[nodes."a/b"]', "'a/b' cannot be a node's name"),
        ("[nodes.n1]", "[nodes.n1", "is not valid TOML"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, old: str, new: str, told: str) -> None:
    assert old in FULL
    path = written(tmp_path, FULL.replace(old, new, 1))
    with pytest.raises(UsageError, match=told) as error:
        from_file(path)
    assert str(path) in error.value.what
    assert error.value.hint


def test_the_same_address_twice_is_told_with_both_lines(tmp_path: Path) -> None:
    text = FULL.replace("port = 2222", "port = 22").replace("192.168.0.12", "192.168.0.11")
    with pytest.raises(UsageError, match=r"line 12: rack.n2 has .* of n1 \(.*line 9\)"):
        from_file(written(tmp_path, text))


def test_the_nearest_key_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        from_file(written(tmp_path, FULL.replace("port =", "prot =")))
    assert error.value.hint == "did you mean 'port'?"


@pytest.mark.parametrize("text", ["", "nodes = 3", "[nodes]", 'interface = "eno1"'])
def test_a_file_without_nodes_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="names no node"):
        from_file(written(tmp_path, text))


def test_sections_that_are_values_are_refused(tmp_path: Path) -> None:
    for text in ("[nodes]\nn1 = 3", 'defaults = 3\n[nodes.n1]\naddress = "a"'):
        with pytest.raises(UsageError, match="is a section, not a value"):
            from_file(written(tmp_path, text))


def test_a_missing_file_names_the_ways_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        from_file(tmp_path / "cluster.toml")
    assert "shanty init" in error.value.hint
    assert "--hosts" in error.value.hint
