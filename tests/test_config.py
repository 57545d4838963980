"""The configuration: defaults, what overrides what, and refusals that name file and key."""

from collections.abc import Mapping
from dataclasses import replace
from typing import get_args, get_origin, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llmgwd.config import AgentConfig, Config, EngineConfig, parse_config
from llmgwd.model.errors import InvalidConfig

UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy

FILE = "/etc/llmgwd/llmgwd.toml"
ENGINES = ("vllm", "sglang", "llama-cpp", "tgi", "command")
NO_ENGINE = f"no such engine here, takes {', '.join(ENGINES)}, or one whose package is installed"


def parse(*texts: str, user_mode: bool = False) -> Config:
    documents = [(f"{number}.toml", text) for number, text in enumerate(texts)]
    if user_mode:
        return parse_config(
            documents,
            engines=ENGINES,
            user_mode=True,
            state_dir="/home/u/state",
            working_directory="/home/u",
        )
    return parse_config(documents, engines=ENGINES)


def refusal(text: str, *, user_mode: bool = False) -> str:
    with pytest.raises(InvalidConfig) as refused:
        parse_config([("good.toml", ""), (FILE, text)], engines=ENGINES, user_mode=user_mode)
    return str(refused.value)


def test_nothing_configured_is_the_contracts_defaults() -> None:
    assert parse().agent == AgentConfig(
        state_dir="/var/lib/llmgwd",
        journal_namespace="llmgw",
        slice="llmgw.slice",
        log_lines=512,
        stop_timeout_s=60.0,
        health_interval_s=2.0,
        rendezvous_timeout_s=300.0,
        alive_grace_s=5.0,
        management_address="",
        nccl_ib_gid_index="auto",
        allowed_users=(),
        allowed_executables=(),
        allowed_directories=(),
        environment_file_directories=("/etc/llmgwd/env.d",),
        environment_passthrough=(),
        limit_nofile=1_048_576,
        limit_memlock="infinity",
        max_shards=1_024,
    )
    assert parse().engine("vllm") == EngineConfig(
        executable="",
        args=(),
        environment={},
        user="llmgw",
        group="",
        working_directory="/var/lib/llmgw",
        enabled=True,
    )


def test_command_is_disabled_until_the_configuration_enables_it() -> None:
    enabled = {name: parse().engine(name).enabled for name in ENGINES}
    assert enabled == {name: name != "command" for name in ENGINES}
    assert parse("[engines.command]\nenabled = true").engine("command") == EngineConfig()
    assert parse("[engines.command]\nuser = 'x'").engine("command") == EngineConfig(user="x", enabled=False)


def test_a_configuration_made_by_hand_has_the_same_defaults() -> None:
    assert [Config().engine(name) for name in ENGINES] == [parse().engine(name) for name in ENGINES]


def test_every_key_is_read() -> None:
    config = parse(
        """
        [agent]
        state_dir = "/srv/state"
        journal_namespace = ""
        slice = "gpu-llm.slice"
        log_lines = 100
        stop_timeout_s = 90
        health_interval_s = 0.5
        rendezvous_timeout_s = 600
        alive_grace_s = 1
        management_address = "10.0.0.7"
        nccl_ib_gid_index = 3
        allowed_users = ["llmgw", "bob"]
        allowed_executables = ["/opt/vllm/bin/vllm"]
        allowed_directories = ["/srv/models"]
        environment_file_directories = []
        environment_passthrough = ["http_proxy"]
        limit_nofile = 4096
        limit_memlock = 65536
        max_shards = 8

        [engines.vllm]
        executable = "/opt/vllm/bin/vllm"
        args = ["--disable-log-requests"]
        environment = { HF_HOME = "/srv/hf" }
        user = "vllm"
        group = "render"
        working_directory = "/srv/vllm"
        enabled = false
        """
    )
    assert config.agent == AgentConfig(
        state_dir="/srv/state",
        journal_namespace="",
        slice="gpu-llm.slice",
        log_lines=100,
        stop_timeout_s=90.0,
        health_interval_s=0.5,
        rendezvous_timeout_s=600.0,
        alive_grace_s=1.0,
        management_address="10.0.0.7",
        nccl_ib_gid_index=3,
        allowed_users=("llmgw", "bob"),
        allowed_executables=("/opt/vllm/bin/vllm",),
        allowed_directories=("/srv/models",),
        environment_file_directories=(),
        environment_passthrough=("http_proxy",),
        limit_nofile=4_096,
        limit_memlock=65_536,
        max_shards=8,
    )
    assert config.engine("vllm") == EngineConfig(
        executable="/opt/vllm/bin/vllm",
        args=("--disable-log-requests",),
        environment={"HF_HOME": "/srv/hf"},
        user="vllm",
        group="render",
        working_directory="/srv/vllm",
        enabled=False,
    )


@pytest.mark.parametrize(
    "line",
    [
        *(
            f"{key} = {number}"
            for key in (
                "log_lines",
                "stop_timeout_s",
                "health_interval_s",
                "rendezvous_timeout_s",
                "alive_grace_s",
                "limit_nofile",
                "limit_memlock",
                "max_shards",
            )
            for number in ("0", "-1")
        ),
        "stop_timeout_s = -0.5",
        "nccl_ib_gid_index = -1",
        'state_dir = ""',
    ],
)
def test_a_zero_or_negative_number_and_an_empty_directory_take_the_default(line: str) -> None:
    assert parse(f"[agent]\n{line}") == parse()


@pytest.mark.parametrize("key", ["working_directory", "executable", "user", "group"])
def test_an_empty_directory_or_name_of_an_engine_takes_the_default(key: str) -> None:
    assert parse(f"[engines.vllm]\n{key} = ''") == parse()


def test_a_gid_index_of_zero_takes_the_default_as_any_number_does() -> None:
    assert parse("[agent]\nnccl_ib_gid_index = 0").agent.nccl_ib_gid_index == "auto"
    assert parse("[agent]\nnccl_ib_gid_index = 'off'").agent.nccl_ib_gid_index == "off"


def test_later_documents_override_key_by_key() -> None:
    config = parse(
        """
        agent.log_lines = 100
        agent.max_shards = 8
        engines.vllm.args = ["a", "b"]
        engines.vllm.user = "one"
        engines.vllm.environment = { A = "1", B = "1" }
        engines.tgi.user = "one"
        """,
        "",
        """
        agent.log_lines = 200
        engines.vllm.args = ["c"]
        engines.vllm.environment = { B = "2", C = "2" }
        """,
    )
    assert config.agent == AgentConfig(log_lines=200, max_shards=8)
    assert config.engine("vllm") == EngineConfig(
        args=("c",), user="one", environment={"A": "1", "B": "2", "C": "2"}
    )
    assert config.engine("tgi") == EngineConfig(user="one")


def test_a_later_zero_brings_the_default_back() -> None:
    assert parse("agent.log_lines = 100", "agent.log_lines = 0") == parse()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[agents]", "agents: unknown key, did you mean agent?"),
        ("agent = 3", "agent: got 3, takes a table"),
        ("engines = []", "engines: got a list, takes a table"),
        ("engines.vllm = 'x'", "engines.vllm: got 'x', takes a table"),
        ("[engines.vlm]", f"engines.vlm: {NO_ENGINE}"),
        ('[engines."a\\nb"]', f"engines.'a\\nb': {NO_ENGINE}"),
        ("management_address = '10.0.0.1'", "management_address: unknown key, did you mean it in [agent]?"),
        ("log_lines = 5\n[agent]", "log_lines: unknown key, did you mean it in [agent]?"),
        ("args = ['-x']", "args: unknown key, did you mean it in [engines.NAME]?"),
        ("argv = ['x']", "argv: unknown key"),
        ("agent.log_line = 1", "agent.log_line: unknown key, did you mean log_lines?"),
        ("engines.vllm.frobnicate = 1", "engines.vllm.frobnicate: unknown key"),
        ("agent.log_lines = '5'", "agent.log_lines: got '5', takes an integer from 1 to 100000"),
        ("agent.log_lines = true", "agent.log_lines: got true, takes an integer from 1 to 100000"),
        ("agent.log_lines = 0.0", "agent.log_lines: got 0.0, takes an integer from 1 to 100000"),
        ("agent.max_shards = 100001", "agent.max_shards: got 100001, takes 1 to 100000"),
        ("agent.stop_timeout_s = nan", "agent.stop_timeout_s: got nan, takes 0 to 1000000000 seconds"),
        ("agent.stop_timeout_s = inf", "agent.stop_timeout_s: got inf, takes 0 to 1000000000 seconds"),
        ("agent.stop_timeout_s = false", "agent.stop_timeout_s: got false, takes 0 to 1000000000 seconds"),
        ("agent.state_dir = 'state'", "agent.state_dir: got 'state', takes an absolute path"),
        ("agent.slice = 'llmgw'", "agent.slice: got 'llmgw', takes the name of a slice such as llmgw.slice"),
        (
            "agent.journal_namespace = 'a/b'",
            "agent.journal_namespace: got 'a/b', takes the name of a namespace, or '' for the host's journal",
        ),
        (
            "agent.nccl_ib_gid_index = 'on'",
            "agent.nccl_ib_gid_index: got 'on', takes 'auto', 'off' or a number from 1 to 65535",
        ),
        (
            "agent.limit_memlock = 'all'",
            "agent.limit_memlock: got 'all', takes 'infinity' or a number of bytes",
        ),
        ("agent.allowed_users = 'bob'", "agent.allowed_users: got a string, takes a list of strings"),
        (
            "agent.allowed_directories = ['/a', 'b']",
            "agent.allowed_directories[1]: got 'b', takes an absolute path",
        ),
        ("engines.vllm.args = [1]", "engines.vllm.args[0]: got a number, takes a string"),
        ("engines.vllm.environment = { A = 1 }", "engines.vllm.environment[A]: got a number, takes a string"),
        ("engines.vllm.enabled = 1", "engines.vllm.enabled: got 1, takes true or false"),
        ("engines.vllm.enabled = 1979-05-27", "engines.vllm.enabled: got date, takes true or false"),
        ("\n\nagent = \n", "line 3: Invalid value"),
        ("\nagent = [1\n", "line 2: Unclosed array"),
        ("agent = " + "[" * 100_000, "nested too deeply"),
    ],
)
def test_a_refusal_names_file_and_key(text: str, said: str) -> None:
    assert refusal(text) == f"InvalidConfig: {FILE}: {said}"


def test_a_number_with_more_digits_than_python_reads_is_a_refusal() -> None:
    assert refusal("agent.log_lines = " + "9" * 5_000).startswith(f"InvalidConfig: {FILE}: ")


def test_the_environment_is_not_in_the_repr() -> None:
    assert "hf_secret" not in repr(parse("engines.vllm.environment = { HF_TOKEN = 'hf_secret' }"))


def test_a_daemon_of_a_user_has_the_users_directories_and_nobody_elses_name() -> None:
    config = parse("engines.vllm.args = ['-x']", user_mode=True)
    engine = EngineConfig(user="", group="", working_directory="/home/u")
    assert config.agent == AgentConfig(state_dir="/home/u/state", journal_namespace="")
    assert {name: config.engine(name) for name in ENGINES} == {
        name: replace(engine, enabled=name != "command", args=("-x",) if name == "vllm" else ())
        for name in ENGINES
    }


def test_a_daemon_of_a_user_takes_empty_directories_from_its_own_defaults() -> None:
    silent = parse(user_mode=True)
    text = "agent.state_dir = ''\nengines.vllm.working_directory = ''\nengines.vllm.user = ''"
    assert parse(text, user_mode=True) == silent


@pytest.mark.parametrize("key", ["agent.journal_namespace", "engines.vllm.user", "engines.command.group"])
def test_a_daemon_of_a_user_refuses_what_needs_root(key: str) -> None:
    assert (
        refusal(f"{key} = 'x'", user_mode=True)
        == f"InvalidConfig: {FILE}: {key}: got 'x', takes none with --user"
    )


TOML = st.recursive(
    st.one_of(
        st.booleans().map(lambda value: str(value).lower()),
        st.integers().map(str),
        st.floats().map(repr),
        st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="'")).map(
            "'{}'".format
        ),
        st.sampled_from(
            ["'/a'", '"\\u0000"', '"a\\nb"', "1979-05-27", "07:32:00", "''", '"infinity"', '"auto"']
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda entries: f"[{', '.join(entries)}]"),
        st.lists(inner, max_size=3).map(
            lambda entries: f"{{{', '.join(f'K{number} = {entry}' for number, entry in enumerate(entries))}}}"
        ),
    ),
    max_leaves=5,
)
KEYS = [
    "agent",
    "engines",
    "engines.vllm",
    *(f"agent.{key}" for key in get_type_hints(AgentConfig)),
    *(f"engines.vllm.{key}" for key in get_type_hints(EngineConfig)),
]


@UNTIMED
@given(key=st.sampled_from(KEYS), value=TOML)
def test_any_value_gives_a_configuration_of_the_declared_types_or_a_refusal(key: str, value: str) -> None:
    config, said = outcome(f"{key} = {value}")
    assert said == "" or said.startswith(f"{FILE}: {key}")
    assert (wrong_types(config.agent), wrong_types(config.engine("vllm"))) == ({}, {})


@UNTIMED
@given(text=st.text())
def test_any_text_gives_a_configuration_or_a_refusal(text: str) -> None:
    said = outcome(text)[1]
    assert said == "" or said.startswith(f"{FILE}: ")


def outcome(text: str) -> tuple[Config, str]:
    try:
        return parse_config([(FILE, text)], engines=ENGINES), ""
    except InvalidConfig as refused:
        return Config(), refused.text


def wrong_types(table: object) -> dict[str, object]:
    hints = get_type_hints(type(table))
    return {name: getattr(table, name) for name in hints if not fits(getattr(table, name), hints[name])}


def fits(value: object, hint: object) -> bool:
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(type(entry) is str for entry in value)
    if get_origin(hint) is Mapping:
        return isinstance(value, Mapping) and all(type(entry) is str for entry in [*value, *value.values()])
    if get_args(hint):
        return any(
            fits(value, choice) if isinstance(choice, type) else value in get_args(choice)
            for choice in get_args(hint)
        )
    return type(value) is hint
