"""What the environment may not say, and secrets that no output shows."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from robustboard import cli, environment
from robustboard.errors import UserError

TOKENS = {
    "hf": "hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345678",
    "github": "ghp_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
    "bearer": "AbCdEf.GhIjKl-MnOp_QrSt~UvWx+Yz/01=",
    "password": "s3cr3t-pass",
    "signature": "AbCdEf0123456789",
}


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"401 for token {TOKENS['hf']}.", "hf"),
        (f"('{TOKENS['hf']}',)", "hf"),
        (f"push with {TOKENS['github']}", "github"),
        (f"Authorization: Bearer {TOKENS['bearer']}", "bearer"),
        (f"{{'authorization': 'bearer {TOKENS['bearer']}'}}", "bearer"),
        (f"http://user:{TOKENS['password']}@mirror.example/api", "password"),
        (f"HTTPS://{TOKENS['password']}@mirror.example", "password"),
        (f"https://cdn.example/x?X-Amz-Signature={TOKENS['signature']}&a=1", "signature"),
        (f"https://cdn.example/x?a=1&token={TOKENS['signature']}", "signature"),
    ],
)
def test_secrets_are_blotted_out_and_the_rest_stays(text: str, secret: str) -> None:
    found = environment.redact(text)
    assert TOKENS[secret] not in found
    assert environment.STARS in found
    assert (
        found.split(environment.STARS)[0] == text[: len(found.split(environment.STARS)[0])] or secret == "hf"
    )


@pytest.mark.parametrize(
    "text",
    [
        "hf_hub_download of org/net at https://huggingface.co/org/net",
        "mail someone@example.org, bearer of bad news",
        "model hf-hub:org/net, 8/255, ratio=1?x=2",
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    assert environment.redact(text) == text


def test_the_value_of_a_token_variable_is_a_secret_whatever_it_looks_like(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "plain words here")
    environment.forget_secrets()
    try:
        assert environment.redact("it said plain words here twice") == "it said *** twice"
    finally:
        monkeypatch.undo()
        environment.forget_secrets()


def test_a_token_that_was_written_by_a_login_is_a_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("an-odd-token\n")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    environment.forget_secrets()
    try:
        assert environment.redact("with an-odd-token") == "with ***"
    finally:
        monkeypatch.undo()
        environment.forget_secrets()


def test_nothing_starts_where_weights_files_may_run_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with exit code 2, before anything is read; unset, the command runs."""
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    found = CliRunner().invoke(cli.app, ["list"])
    assert isinstance(found.exception, UserError)
    assert str(found.exception).startswith("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is set: expected it unset")
    assert found.exception.exit_code == 2
    monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    assert CliRunner().invoke(cli.app, ["list"]).exit_code == 0


def test_streams_show_no_secret_whoever_writes_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """print, logging and tracebacks alike; twice wrapped is once wrapped."""
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    environment.redact_streams()
    wrapped = sys.stdout
    environment.redact_streams()
    assert sys.stdout is wrapped
    assert sys.stdout.write(f"with {TOKENS['hf']}\n") == len(TOKENS["hf"]) + 6
    sys.stdout.flush()
    assert out.getvalue() == "with hf_***\n"
    assert not sys.stdout.isatty()


@pytest.mark.parametrize(
    ("named", "told"),
    [
        (None, None),
        ("https://huggingface.co", None),
        ("https://huggingface.co/", None),
        ("https://mirror.example/hub", "https://mirror.example/hub"),
        ("http://me:s3cr3t-pass@127.0.0.1:80", "http://***@127.0.0.1:80"),
    ],
)
def test_another_hub_is_named_without_its_password(
    named: str | None, told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    if named is not None:
        monkeypatch.setenv("HF_ENDPOINT", named)
    assert environment.unusual_endpoint() == told
