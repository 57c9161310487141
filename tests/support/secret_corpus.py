"""Generates secrets and harmless strings with a fixed seed.

No secret is written in this file: each is assembled at run time from a beginning and random characters, so that
neither a scanner nor a code host mistakes the tests for a leak.
"""

from __future__ import annotations

import base64
import random
import string
import uuid
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

HEX = "0123456789abcdef"
ALNUM = string.ascii_letters + string.digits
URL64 = ALNUM + "-_"
BASE64 = ALNUM + "+/"
UPPER = string.ascii_uppercase + string.digits
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class Sample(NamedTuple):
    kind: str
    secret: str
    """What must not survive."""
    text: str


class Benign(NamedTuple):
    family: str
    text: str


def _chars(rng: random.Random, alphabet: str, length: int) -> str:
    return "".join(rng.choices(alphabet, k=length))


def _b64(rng: random.Random, size: int) -> str:
    return base64.b64encode(rng.randbytes(size)).decode()


def _url64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _jwt(rng: random.Random) -> str:
    head = _url64(b'{"alg":"HS256","typ":"JWT"}')
    body = _url64(f'{{"sub":"{rng.randrange(10**9)}","iat":{rng.randrange(10**9)}}}'.encode())
    return f"{head}.{body}.{_url64(rng.randbytes(32))}"


def _strong(rng: random.Random) -> str:
    """A password as a generator makes it: letters, a digit, perhaps a special character."""
    inner = _chars(rng, ALNUM, rng.randint(8, 24))
    return rng.choice(string.ascii_letters) + inner + rng.choice(["", "!", "%", "+", "-x"]) + rng.choice("0123456789")


def _plain(rng: random.Random) -> str:
    """A password as a person chooses it."""
    return rng.choice(["hunter", "dragon", "Sommer", "swordfish", "Tr0ub4dor"]) + str(rng.randrange(10, 99999))


Make: TypeAlias = "Callable[[random.Random], str]"

# One long word with a known beginning, which is split here so that no scanner recognizes it.
SHAPED: dict[str, Make] = {
    "aws_access_key_id": lambda r: r.choice(["AK" + "IA", "AS" + "IA"]) + _chars(r, UPPER, 16),
    "github_token": lambda r: "gh" + r.choice("pousr") + "_" + _chars(r, ALNUM, 36),
    "github_fine_grained_token": lambda r: "github_" + "pat_" + _chars(r, ALNUM, 22) + "_" + _chars(r, ALNUM, 59),
    "gitlab_token": lambda r: r.choice(["glp" + "at-", "gld" + "t-", "glr" + "t-"]) + _chars(r, URL64, 20),
    "npm_token": lambda r: "np" + "m_" + _chars(r, ALNUM, 36),
    "pypi_token": lambda r: "py" + "pi-" + _chars(r, URL64, 160),
    "rubygems_key": lambda r: "ruby" + "gems_" + _chars(r, HEX, 48),
    "docker_hub_token": lambda r: "dckr_" + "pat_" + _chars(r, URL64, 27),
    "anthropic_key": lambda r: "sk-" + "ant-api03-" + _chars(r, URL64, 93) + "AA",
    "openrouter_key": lambda r: "sk-" + "or-v1-" + _chars(r, HEX, 64),
    "openai_key": lambda r: "sk" + "-" + r.choice(["", "proj-", "svcacct-"]) + "a7" + _chars(r, ALNUM, 46),
    "hugging_face_token": lambda r: "h" + "f_" + _chars(r, ALNUM, 34),
    "groq_key": lambda r: "gs" + "k_" + _chars(r, ALNUM, 52),
    "xai_key": lambda r: "xa" + "i-" + _chars(r, ALNUM, 80),
    "replicate_token": lambda r: "r" + "8_" + _chars(r, ALNUM, 37),
    "langsmith_key": lambda r: "lsv" + "2_pt_" + _chars(r, HEX, 32) + "_" + _chars(r, HEX, 10),
    "google_api_key": lambda r: "AI" + "za" + _chars(r, URL64, 35),
    "google_oauth_secret": lambda r: r.choice(["GOC" + "SPX-", "ya" + "29."]) + _chars(r, URL64, 28),
    "digitalocean_token": lambda r: "do" + r.choice("opr") + "_v1_" + _chars(r, HEX, 64),
    "azure_client_secret": lambda r: "abc" + "8" + "Q~" + _chars(r, ALNUM, 34),
    "databricks_token": lambda r: "da" + "pi" + _chars(r, HEX, 32),
    "vault_token": lambda r: "hv" + "s." + _chars(r, URL64, 90),
    "terraform_cloud_token": lambda r: _chars(r, ALNUM, 14) + ".atlas" + "v1." + _chars(r, ALNUM, 67),
    "doppler_token": lambda r: "dp" + ".pt." + _chars(r, ALNUM, 43),
    "tailscale_key": lambda r: "ts" + "key-auth-" + _chars(r, ALNUM, 17) + "-" + _chars(r, ALNUM, 32),
    "slack_token": lambda r: "xo" + "x" + r.choice("bp") + f"-{r.randrange(10**11)}-" + _chars(r, ALNUM, 24),
    "discord_token": lambda r: "M" + _chars(r, ALNUM, 25) + "." + _chars(r, ALNUM, 6) + "." + _chars(r, URL64, 38),
    "telegram_bot_token": lambda r: f"{r.randrange(10**9, 10**10)}" + ":A" + "A" + _chars(r, URL64, 33),
    "twilio_key": lambda r: "S" + "K" + _chars(r, HEX, 32),
    "sendgrid_key": lambda r: "S" + "G." + _chars(r, URL64, 22) + "." + _chars(r, URL64, 43),
    "mailgun_key": lambda r: "ke" + "y-" + _chars(r, HEX, 32),
    "mailchimp_key": lambda r: _chars(r, HEX, 32) + "-u" + f"s{r.randrange(1, 21)}",
    "brevo_key": lambda r: "xkey" + "sib-" + _chars(r, HEX, 64) + "-" + _chars(r, ALNUM, 16),
    "stripe_key": lambda r: r.choice("sr") + "k_" + "live_" + _chars(r, ALNUM, r.choice([24, 99])),
    "stripe_webhook_secret": lambda r: "wh" + "sec_" + _chars(r, ALNUM, 32),
    "square_token": lambda r: "sq" + "0atp-" + _chars(r, URL64, 22),
    "shopify_token": lambda r: "sh" + "pat_" + _chars(r, HEX, 32),
    "atlassian_token": lambda r: "AT" + "ATT3" + _chars(r, URL64, 186),
    "linear_key": lambda r: "lin_" + "api_" + _chars(r, ALNUM, 40),
    "notion_token": lambda r: r.choice(["nt" + "n_", "sec" + "ret_"]) + _chars(r, ALNUM, 43),
    "figma_token": lambda r: "fi" + "gd_" + _chars(r, URL64, 40),
    "airtable_token": lambda r: "pa" + "t" + _chars(r, ALNUM, 14) + "." + _chars(r, HEX, 64),
    "postman_key": lambda r: "PM" + "AK-" + _chars(r, HEX, 24) + "-" + _chars(r, HEX, 34),
    "grafana_token": lambda r: "gl" + "sa_" + _chars(r, ALNUM, 32) + "_" + _chars(r, HEX, 8),
    "new_relic_key": lambda r: "NR" + "AK-" + _chars(r, UPPER, 27),
    "supabase_key": lambda r: "sb" + "p_" + _chars(r, HEX, 40),
    "sentry_token": lambda r: "snt" + "ryu_" + _chars(r, HEX, 64),
    "age_secret_key": lambda r: "AGE-" + "SECRET-" + "KEY-1" + _chars(r, UPPER, 58),
    "jwt": _jwt,
}

# Places of a token in an agent's texts. None names it: its form must be enough.
CONTEXTS: tuple[str, ...] = (
    "deploy --with {} --dry-run",
    '{{"value": "{}", "n": 1}}',
    '{{"out": "line one\\n{}\\nline three"}}',
    "credential_ref: {}\nother: 1",
    "https://api.example.com/v1/items?k={}&page=2",
    "I tried it with {}, and it still answers 403.",
    "client = Client('{}')",
    "export SERVICE_ID={}",
    "X-Custom: {}\r\nAccept: */*",
    "{}",
    "before\n\n    {}\nafter",
    "see `{}` (rotated)",
    "a={};b=2",
    "<value>{}</value>",
)


def _named(name: str, rng: random.Random, value: str) -> list[str]:
    """A secret recognizable only by its name, with names and values in various spellings."""
    upper = name.upper().replace("-", "_")
    flag = name.replace("_", "-")
    first, *rest = name.split("_")
    camel = first + "".join(part.title() for part in rest)
    return [
        f"{upper}={value}",
        f"export DB_{upper}={value}\nmake run",
        f'export {upper}="{value}" && ./run.sh',
        f"tool login --{flag} {value} --verbose",
        f"tool login --{flag}={value}",
        f'{{"user": "bob", "{name}": "{value}"}}',
        f'{{"{camel}":"{value}","id":7}}',
        f'{{"log": "{{\\"{camel}\\": \\"{value}\\"}}"}}',
        f"db:\n  user: bob\n  {name}: {value}\n",
        f"db:\n  {name}: '{value}'",
        f'{name} = "{value}"',
        f"    client = connect(user='bob', {name}='{value}')",
        f'const {camel} = "{value}";',
        f'config["{name}"] = "{value}"',
        f"https://api.example.com/x?{name}={value.replace('%', '')}&page=2",
        f"Server=db;User=bob;{camel}={value};Timeout=3",
        f"X-{flag.title()}: {value}\r\nAccept: */*",
        f"<{camel}>{value}</{camel}>",
    ]


def _pem(rng: random.Random, label: str) -> tuple[str, str]:
    body = "\n".join(_b64(rng, 48) for _ in range(rng.randint(3, 26)))
    return body, f"-----BEGIN {label}-----\n{body}\n-----END {label}-----"


def _by_place(rng: random.Random) -> list[Sample]:
    """Secrets recognizable by the text around them."""
    out: list[Sample] = []

    def add(kind: str, secret: str, text: str) -> None:
        out.append(Sample(kind, secret, text))

    password = _strong(rng)
    for scheme in ("postgres", "postgresql+asyncpg", "mysql", "mongodb+srv", "redis", "amqp"):
        add("connection_password", password, f"DATABASE_URL={scheme}://app:{password}@db.example.com:5432/main")
    at = _plain(rng) + "@" + _plain(rng)
    add("connection_password", at, f'url: "postgres://app:{at}@db/main"')
    add("url_password", password, f"git clone https://bob:{password}@git.example.com/a/b.git")
    add("url_password", password, f"proxy is http://user:{password}@10.0.0.1:3128, ask Bob")
    token = _chars(rng, ALNUM, 40)
    add("url_token", token, f"git remote set-url origin https://{token}@git.example.com/a/b")
    key = _chars(rng, HEX, 32)
    add(
        "sentry_dsn", key, f"SENTRY_DSN=https://{key}@o{rng.randrange(10**6)}.ingest.sentry.io/{rng.randrange(10**6)}"
    )
    bearer = _chars(rng, ALNUM, 32)
    add("authorization_header", bearer, f"curl -H 'Authorization: Bearer {bearer}' https://api.example.com")
    add("authorization_header", bearer, f'{{"Authorization": "token {bearer}"}}')
    add("authorization_header", bearer, f'headers = {{"authorization": "Bearer {bearer}"}}')
    basic = base64.b64encode(f"bob:{password}".encode()).decode()
    add("authorization_header", basic, f"Authorization: Basic {basic}\r\nHost: example.com")
    aws = _chars(rng, BASE64, 40)
    key_id = "AK" + "IA" + _chars(rng, UPPER, 16)
    add("aws_secret_key", aws, f"aws_access_key_id = {key_id}\naws_secret_access_key = {aws}")
    add("aws_secret_key", aws, f'{{"AccessKeyId": "{key_id}", "SecretAccessKey": "{aws}"}}')
    add("aws_secret_key", aws, f"AWS_SECRET_ACCESS_KEY={aws} ./deploy.sh")
    add("aws_secret_key", aws, f"the aws pair is {key_id} {aws}")
    account = _b64(rng, 64)
    add("azure_storage_key", account, f"DefaultEndpointsProtocol=https;AccountName=x;AccountKey={account};Suffix=y")
    hook = f"T{_chars(rng, UPPER, 8)}/B{_chars(rng, UPPER, 8)}/{_chars(rng, ALNUM, 24)}"
    add("slack_webhook", hook, "curl -d hi https://hooks.slack." + f"com/services/{hook}")
    hook = f"{rng.randrange(10**17, 10**18)}/{_chars(rng, URL64, 68)}"
    add("discord_webhook", hook, f"https://discord.com/api/webhooks/{hook}")
    for label in ("RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY"):
        body, pem = _pem(rng, label)
        add("private_key", body, f"cat key.pem\n{pem}\ndone")
        add("private_key", body.replace("\n", "\\n"), '{"content": "' + pem.replace("\n", "\\n") + '\\n"}')
        add("private_key", body[-200:], f"$ head key.pem\n{pem.partition('-----END')[0]}")
    body, pem = _pem(rng, "OPENSSH PRIVATE KEY")
    add("ssh_private_key", body, pem)
    add("ssh_private_key", body.replace("\n", "\n    "), "key: |\n    " + pem.replace("\n", "\n    "))
    body, pem = _pem(rng, "PRIVATE KEY")
    escaped = pem.replace("\n", "\\n")
    add(
        "gcp_service_account_key",
        body.replace("\n", "\\n"),
        f'{{"type": "service_account", "private_key": "{escaped}\\n", "client_email": "a@b.iam.example.com"}}',
    )
    cookie = _chars(rng, ALNUM, 32)
    add("cookie", cookie, f"Set-Cookie: sid={cookie}; Path=/; HttpOnly")
    add("cookie", cookie, f"Cookie: theme=darkmode; sid={cookie}")
    human = _plain(rng)
    add("netrc_password", human, f"machine git.example.com login bob password {human}")
    add("sql_password", human, f"ALTER ROLE app WITH PASSWORD '{human}';")
    add("sql_password", human, f"CREATE USER app IDENTIFIED BY '{human}';")
    add("command_password", human, f"curl -s -u bob:{human} https://api.example.com")
    add("command_password", human, f"sshpass -p '{human}' ssh bob@host")
    add("command_password", human, f"mysql -u root -p{human} main < dump.sql")
    add("password", human, f"the password is {human}, please change it")
    return out


def secrets(seed: int = 15) -> list[Sample]:
    rng = random.Random(seed)
    out: list[Sample] = []
    for kind, make in SHAPED.items():
        for context in CONTEXTS:
            secret = make(rng)
            out.append(Sample(kind, secret, context.format(secret)))
    for kind, names in {
        "password": ("password", "passwd", "db_password", "passphrase"),
        "token": ("token", "access_token", "refresh_token"),
        "api_key": ("api_key", "access_key", "signing_key"),
        "secret": ("secret", "client_secret", "secret_key"),
    }.items():
        for name in names:
            makers = (_strong, _plain) if kind == "password" else (_strong, lambda r: _chars(r, HEX, 32))
            for make in makers:
                value = make(rng)
                out += [Sample(kind, value, text) for text in _named(name, rng, value) if value in text]
    for _ in range(4):
        out += _by_place(rng)
    return out


KEPT = ("hash", "uuid", "path")
"""Families of harmless strings that must come out exactly as they went in."""

_WORDS = [
    "session", "plan", "token", "tokens", "password", "secret", "key", "keys", "agent", "merge",
    "review", "compaction", "context", "store", "event", "writer", "branch", "deploy", "failed",
    "passed", "retry", "author", "authentication", "cookie", "login", "bearer", "credentials",
    "keyboard", "monkey", "passport", "compass", "bypass", "tokenizer", "secretary", "the", "a", "of",
    "with", "and", "after", "before", "because",
]  # fmt: skip

_CODE = (
    "password=***",
    "$PASSWORD",
    "PASSWORD=$PASSWORD",
    "export TOKEN=${{TOKEN}}",
    "TOKEN=${{TOKEN:-}}",
    "PASSWORD=$(pass show db/{n})",
    "Authorization: Bearer <your-token>",
    "Authorization: Bearer $TOKEN_{n}",
    '"Authorization": f"Bearer {{token}}"',
    'token = os.environ["TOKEN"]',
    'token = os.environ.get("TOKEN_{n}")',
    'password = getpass.getpass("Password: ")',
    "password: str",
    "def login(user: str, password: str, token: str | None = None) -> None:",
    "token = None",
    "secret: Optional[str] = None",
    "max_tokens=4096",
    "max_tokens: {n}",
    "tokens used: 25000",
    "token_count={n}",
    "input_tokens={n}, output_tokens={n}",
    "password reset flow",
    "self.password = password",
    "token=self.token",
    "api_key=settings.API_KEY",
    "apiKey: process.env.OPENAI_API_KEY,",
    "const token = getToken(user);",
    "password = request.form['password']",
    "GITHUB_TOKEN: ${{{{ secrets.GITHUB_TOKEN }}}}",
    "api_key: your-api-key-here",
    "API_KEY=<api-key>",
    'password: "{{{{ vault_password }}}}"',
    "secretName: db-credentials-{n}",
    "secretKeyRef: {{name: db, key: password}}",
    "if not token: raise Refused",
    "password == confirmation",
    "class Token(NamedTuple):",
    "from secrets import token_hex",
    "secret = secrets.token_urlsafe(32)",
    "eos_token: </s>, pad_token: <pad>",
    "next_page_token: {n}",
    "cache_key = f'{{name}}-{{version}}'",
    "primary_key=True, foreign_key=False",
    "key: value-{n}",
    "sort(key=lambda pair: pair[{n}])",
    "http://localhost:{n}/path",
    "ssh://git@github.com/owner/repo{n}.git",
    "git@github.com:owner/repo.git",
    "postgres://localhost:5432/main",
    "postgres://app:${{DB_PASSWORD}}@db/main",
    "https://user@example.com/a/{n}",
    "docker run -u 1000:1000 -p {n}:80 image",
    "PWD=/home/bob/work/{n}",
    "--password-file /run/secrets/db",
    "the --token option takes a value",
    "use --api-key or set the variable",
    "Passwords are hashed with bcrypt",
    "the token is base64 of the id",
    "password: must be at least 8 characters",
    '{{"password": "is required"}}',
    '{{"token": "hello", "logprob": -0.{n}}}',
    "grep -rn 'BEGIN RSA PRIVATE KEY' src",
    "a file between -----BEGIN CERTIFICATE----- and -----END CERTIFICATE-----",
    "ssh_key: ~/.ssh/id_ed25519",
    "private_key: certs/server-{n}.pem",
    "pass: {n}, fail: 0",
    "auth: required",
    "Bearer authentication is not supported",
    "Authorization: required",
    "sk-learn-compatible-estimators-and-pipelines",
    "class='sk-toggleable__content fitted'",
    "task-proj-alpha-beta-gamma-delta-epsilon",
    "hf_hub_download_and_cache_files_now",
    "npm_config_registry_and_other_long_names",
    "pip install holdfast=={n}.4.1",
    "Cookie policy: accept all",
    "token = Name.Builtin.Pseudo",
    ":param passphrase: (optional) if encrypted",
    "SERVER_AUTH = '1.3.6.1.5.5.7.3.1'",
    "token: https://example.com/rfc{n}",
)


def _hash(rng: random.Random) -> str:
    digest = _chars(rng, HEX, rng.choice([7, 32, 40, 64, 128]))
    return rng.choice(
        [
            "{}", "commit {}", "sha256:{}", "sha256={}", '{{"hash": "{}", "seq": 4}}', "git show {} --stat",
            "checksum: {}", "merged {} into main", 'etag: "{}"', "key: {}", "cache_key={}", "image@sha256:{}",
            "https://example.com/commit/{}", "aws s3 object {} uploaded",
        ]
    ).format(digest)  # fmt: skip


def _uuid(rng: random.Random) -> str:
    value = str(uuid.UUID(bytes=rng.randbytes(16), version=4))
    return rng.choice(["{}", "session {}", '{{"id": "{}"}}', "id={}", "/tasks/{}/log", "request_id: {}"]).format(
        value
    )


def _path(rng: random.Random) -> str:
    parts = [rng.choice(_WORDS) + rng.choice(["", "_" + rng.choice(_WORDS), str(rng.randrange(9))]) for _ in range(6)]
    return rng.choice(
        ["/home/bob/{}.py", "src/{}.ts", "C:\\work\\{}.cs", "~/{}", "edit ./{}.rs:42", "../{}/"]
    ).format("/".join(parts[: rng.randint(2, 6)]))


def _identifier(rng: random.Random) -> str:
    makers: list[Callable[[], str]] = [
        lambda: "01" + _chars(rng, CROCKFORD, 24),
        lambda: "sha512-" + _b64(rng, 64),
        lambda: "sha256-" + _b64(rng, 32),
        lambda: '"integrity": "sha512-' + _b64(rng, 64) + '"',
        lambda: "toolu_" + _chars(rng, ALNUM, 24),
        lambda: "msg_" + _chars(rng, ALNUM, 24),
        lambda: "req_" + _chars(rng, ALNUM, 16),
        lambda: "cursor=" + _b64(rng, 24),
        lambda: "data:image/png;base64," + _b64(rng, 60),
        lambda: f"numpy=={rng.randrange(3)}.{rng.randrange(30)}.{rng.randrange(9)}",
        lambda: "https://example.com/?v=" + _chars(rng, URL64, 11),
        lambda: "ssh-ed25519 AAAA" + _b64(rng, 48) + " bob@host",
        lambda: "age1" + _chars(rng, string.ascii_lowercase + string.digits, 58),
        lambda: "arn:aws:iam::123456789012:role/" + "-".join(rng.choices(_WORDS, k=3)),
    ]
    return rng.choice(makers)()


def benign(seed: int = 15) -> list[Benign]:
    rng = random.Random(seed)
    # Lines without a number are always the same, and count once.
    lines = dict.fromkeys(line.format(n=rng.randrange(10, 9999)) for line in _CODE for _ in range(8))
    out = [Benign("code", line) for line in lines]
    out += [Benign("hash", _hash(rng)) for _ in range(600)]
    out += [Benign("uuid", _uuid(rng)) for _ in range(300)]
    out += [Benign("path", _path(rng)) for _ in range(500)]
    out += [Benign("identifier", _identifier(rng)) for _ in range(500)]
    for _ in range(500):
        words = rng.choices(_WORDS, k=rng.randint(4, 18))
        glue = rng.choice([" ", " ", " ", ", ", ": "])
        out.append(Benign("prose", (" ".join(words[:3]) + glue + " ".join(words[3:])).capitalize() + "."))
    return out
