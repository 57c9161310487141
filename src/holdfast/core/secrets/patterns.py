"""Find secrets and remove them, in a text before it enters the log, or in a whole document.

`redact` runs on every text of every event, so it is built to decide quickly that there is nothing to do. There are
two sorts of secrets. Those with a *shape* (`ghp_…`) are one long word with a known beginning: a text without a long
word contains none. Those known by their *place* (`password=…`, `Authorization: …`) follow a keyword. Only kinds that
a text hints at are searched for, and a pattern is compiled on first use.

Every pattern takes linear time: a repetition is either bounded, or possessive with nothing after it that could fail,
and cannot be entered again in the middle of a run.

Raise `events.SECRET_RULES` when the patterns change: older events are then scanned again before they are synced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.secrets.values import (
    changes_in,
    is_marked,
    is_placeholder,
    is_wordy,
    pattern,
    redact_named_values,
    replace_spans,
)

if TYPE_CHECKING:
    from holdfast.core.canonical import Json


class RedactedText(NamedTuple):
    """A text without its secrets, and how many of each kind were in it."""

    text: str
    counts: dict[str, int]


class SecretKind(NamedTuple):
    """One kind of secret: its name in `[redacted:NAME]`, and in plain words what it is."""

    name: str
    description: str
    #: A text with none of these contains no secret of this kind. Places are compared in lower case.
    hints: tuple[str, ...]
    #: Where it has a group, only the group is the secret.
    pattern: str


# The left edge of a word. In JSON text a newline is a backslash and an `n`, which must not hide what follows.
_EDGE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
# The same for alphabets with `-` and `_`: a long run is entered once, at its beginning, or time is quadratic.
_EDGE_URL = r"(?:(?<![A-Za-z0-9_\-])|(?<=\\[nrt]))"
_URL64 = r"[A-Za-z0-9_\-]"
_END = r"(?![A-Za-z0-9])"

_MIN_SHAPE_LENGTH = 20
_LONG_SHAPE_LENGTH = 50

# The first match wins, so specific patterns come before general ones.
_SHAPES: tuple[SecretKind, ...] = (
    # --- code hosts and package registries
    SecretKind("github_token", "A GitHub token (ghp_, gho_, ghu_, ghs_, ghr_).",
         ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9_]{30,}+"),
    SecretKind("github_fine_grained_token", "A GitHub fine-grained personal access token (github_pat_).",
         ("github_pat_",), r"github_pat_[A-Za-z0-9_]{36,}+"),
    SecretKind("gitlab_token",
         "A GitLab access, deploy, runner, trigger or application token (glpat- and its family).",
         ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glsoat-", "gloas-", "glft-", "glimt-", "glagent-"),
         _EDGE + r"gl(?:pat|dt|rt|ptt|cbt|soat|oas|ft|imt|agent)-[A-Za-z0-9_.=\-]{18,}+"),
    SecretKind("npm_token", "An npm access token (npm_).", ("npm_",), _EDGE + r"npm_[A-Za-z0-9]{34,}+"),
    SecretKind("pypi_token", "A PyPI upload token (pypi-).", ("pypi-",), _EDGE + rf"pypi-{_URL64}{{50,}}+"),
    SecretKind("rubygems_key", "A RubyGems API key (rubygems_).", ("rubygems_",), r"rubygems_[0-9a-f]{40,}+"),
    SecretKind("docker_hub_token", "A Docker Hub access token (dckr_pat_, dckr_oat_).",
         ("dckr_",), rf"dckr_[po]at_{_URL64}{{20,}}+"),
    SecretKind("sonar_token", "A SonarQube token (sqp_, squ_, sqa_).",
         ("sqp_", "squ_", "sqa_"), _EDGE + r"sq[pua]_[0-9a-f]{40}" + _END),
    SecretKind("circleci_token", "A CircleCI personal or project token (CCIPAT_, CCIPRJ_).",
         ("CCIP",), rf"CCIP(?:AT|RJ)_{_URL64}{{20,}}+"),
    # --- model providers
    SecretKind("anthropic_key", "An Anthropic API or OAuth key (sk-ant-).",
         ("sk-ant-",), rf"sk-ant-{_URL64}{{16,}}+"),
    SecretKind("openrouter_key", "An OpenRouter API key (sk-or-).", ("sk-or-",), rf"sk-or-{_URL64}{{20,}}+"),
    SecretKind("openai_key",
         "An OpenAI API key (sk-, sk-proj-, sk-svcacct-), or a key of another provider in the same form.",
         ("sk-",),
         _EDGE_URL + rf"sk-(?:(?:proj|svcacct|admin|service|None|lf)-{_URL64}{{20,}}+"
         r"|(?=[a-zA-Z]*+[0-9])[A-Za-z0-9]{20,}+)"),
    SecretKind("hugging_face_token", "A Hugging Face access token (hf_).",
         ("hf_", "api_org_"), _EDGE_URL + r"(?:hf|api_org)_[A-Za-z0-9]{30,}+"),
    SecretKind("groq_key", "A Groq API key (gsk_).", ("gsk_",), _EDGE_URL + r"gsk_[A-Za-z0-9]{40,}+"),
    SecretKind("xai_key", "An xAI API key (xai-).", ("xai-",), _EDGE_URL + r"xai-[A-Za-z0-9]{40,}+"),
    SecretKind("perplexity_key", "A Perplexity API key (pplx-).", ("pplx-",), _EDGE_URL + r"pplx-[A-Za-z0-9]{40,}+"),
    SecretKind("replicate_token", "A Replicate API token (r8_).", ("r8_",), _EDGE_URL + r"r8_[A-Za-z0-9]{35,}+"),
    SecretKind("langsmith_key", "A LangSmith API key (lsv2_).",
         ("lsv2_",), r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{8,}+"),
    SecretKind("nvidia_key", "An NVIDIA API key (nvapi-).", ("nvapi-",), rf"nvapi-{_URL64}{{40,}}+"),
    # --- clouds and hosting
    SecretKind("aws_access_key_id", "An AWS access key id (AKIA, ASIA).",
         ("AKIA", "ASIA", "ABIA", "ACCA"), _EDGE + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}" + _END),
    SecretKind("google_api_key", "A Google API key (AIza).", ("AIza",), _EDGE_URL + rf"AIza{_URL64}{{33,}}+"),
    SecretKind("google_oauth_secret",
         "A Google OAuth client secret, access token or refresh token (GOCSPX-, ya29., 1//0).",
         ("GOCSPX-", "ya29.", "1//0"),
         _EDGE_URL + rf"(?:GOCSPX-{_URL64}{{20,}}+|ya29\.{_URL64}{{20,}}+|1//0{_URL64}{{30,}}+)"),
    SecretKind("azure_storage_key", "The account key or shared access key in an Azure connection string.",
         ("AccountKey", "SharedAccessKey"),
         r"(?:AccountKey|SharedAccessKey)\s{0,2}[=:]\s{0,2}[\"']?([A-Za-z0-9+/]{30,}+={0,2})"),
    SecretKind("azure_signature", "The signature of an Azure shared access link (sig=).",
         ("&sig=", "?sig=", ";sig="), r"[&?]sig=([A-Za-z0-9%+/=]{30,}+)"),
    SecretKind("azure_client_secret", "A Microsoft Entra (Azure AD) client secret.",
         ("Q~",), r"(?:(?<![A-Za-z0-9_~.\-])|(?<=\\[nrt]))[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.\-]{30,}+"),
    SecretKind("alibaba_access_key_id", "An Alibaba Cloud access key id (LTAI).",
         ("LTAI",), _EDGE + r"LTAI[A-Za-z0-9]{16,24}" + _END),
    SecretKind("digitalocean_token", "A DigitalOcean token (dop_v1_, doo_v1_, dor_v1_).",
         ("_v1_",), r"do[opr]_v1_[0-9a-f]{40,}+"),
    SecretKind("fly_token", "A Fly.io token (fm1_, fm2_, fo1_).",
         ("fm1", "fm2", "fo1_"), _EDGE_URL + r"(?:fm[12][ar]?|fo1)_[A-Za-z0-9+/=_\-]{40,}+"),
    SecretKind("netlify_token", "A Netlify access token (nfp_).", ("nfp_",), _EDGE_URL + r"nfp_[A-Za-z0-9]{34,}+"),
    SecretKind("heroku_key", "A Heroku API key (HRKU-).", ("HRKU-",), rf"HRKU-{_URL64}{{30,}}+"),
    SecretKind("planetscale_token", "A PlanetScale password or token (pscale_).",
         ("pscale_",), r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=\-]{30,}+"),
    SecretKind("supabase_key", "A Supabase access token or secret key (sbp_, sb_secret_).",
         ("sbp_", "sb_secret_"), _EDGE_URL + rf"(?:sbp_[0-9a-f]{{40,}}+|sb_secret_{_URL64}{{20,}}+)"),
    SecretKind("databricks_token", "A Databricks access token (dapi).",
         ("dapi",), _EDGE + r"dapi[0-9a-f]{32}(?:-[0-9])?" + _END),
    SecretKind("vault_token", "A HashiCorp Vault token (hvs., hvb., hvr.).",
         ("hvs.", "hvb.", "hvr."), _EDGE_URL + rf"hv[sbr]\.{_URL64}{{20,}}+"),
    SecretKind("terraform_cloud_token", "A Terraform Cloud token (….atlasv1.…).",
         (".atlasv1.",), r"[A-Za-z0-9]{10,20}\.atlasv1\.[A-Za-z0-9_=\-]{40,}+"),
    SecretKind("pulumi_token", "A Pulumi access token (pul-).", ("pul-",), _EDGE_URL + r"pul-[0-9a-f]{40}" + _END),
    SecretKind("doppler_token", "A Doppler token (dp.pt., dp.st. and others).",
         ("dp.",), _EDGE + r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9_.\-]{30,}+"),
    SecretKind("tailscale_key", "A Tailscale key (tskey-).", ("tskey-",), rf"tskey-{_URL64}{{16,}}+"),
    SecretKind("openshift_token", "An OpenShift user token (sha256~).", ("sha256~",), rf"sha256~{_URL64}{{40,}}+"),
    SecretKind("one_password_token", "A 1Password service account token (ops_).",
         ("ops_eyJ",), _EDGE_URL + r"ops_eyJ[A-Za-z0-9+/=_\-]{40,}+"),
    # --- messages and mail
    SecretKind("slack_token", "A Slack bot, user, app or refresh token (xoxb-, xoxp-, xapp-).",
         ("xox", "xapp-"), _EDGE + r"(?:xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9\-]{12,}+|xapp-[0-9]-[A-Za-z0-9\-]{12,}+)"),
    SecretKind("slack_webhook", "The secret path of a Slack webhook address.",
         ("hooks.slack.com/",), r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_+\-]{16,}+)"),
    SecretKind("discord_webhook", "The secret path of a Discord webhook address.",
         ("/api/webhooks/",), rf"/api/webhooks/([0-9]{{10,24}}/{_URL64}{{30,}}+)"),
    SecretKind("teams_webhook", "The secret path of a Microsoft Teams webhook address.",
         (".webhook.office.com/",), r"\.webhook\.office\.com/([A-Za-z0-9/@_\-]{40,}+)"),
    SecretKind("telegram_bot_token", "A Telegram bot token: a number, a colon, AA and 33 characters more.",
         (":AA",), rf"(?<![0-9])[0-9]{{8,10}}:AA{_URL64}{{30,}}+"),
    SecretKind("twilio_key", "A Twilio account or API key id (AC…, SK…), with the auth token behind it.",
         ("AC", "SK"), _EDGE + r"(?:AC|SK)[0-9a-f]{32}(?::[0-9a-f]{32})?" + _END),
    SecretKind("sendgrid_key", "A SendGrid API key (SG.).",
         ("SG.",), _EDGE + rf"SG\.{_URL64}{{16,40}}\.{_URL64}{{16,}}+"),
    SecretKind("mailgun_key", "A Mailgun API key.",
         ("key-",), _EDGE_URL + r"(?:pub)?key-[0-9a-f]{32}" + _END),
    SecretKind("mailchimp_key", "A Mailchimp API key: 32 hexadecimal digits and a data centre.",
         ("-us",), _EDGE_URL + r"[0-9a-f]{32}-us[0-9]{1,2}" + _END),
    SecretKind("brevo_key", "A Brevo (Sendinblue) key (xkeysib-, xsmtpsib-).",
         ("sib-",), rf"x(?:key|smtp)sib-{_URL64}{{40,}}+"),
    # --- payment and commerce
    SecretKind("stripe_key", "A Stripe secret or restricted key (sk_live_, rk_live_, and those for tests).",
         ("k_live_", "k_test_"), _EDGE + r"[sr]k_(?:live|test)_[A-Za-z0-9]{12,}+"),
    SecretKind("stripe_webhook_secret", "The signing secret of a webhook (whsec_).",
         ("whsec_",), r"whsec_[A-Za-z0-9+/=]{20,}+"),
    SecretKind("square_token", "A Square token or secret (sq0atp-, sq0csp-).",
         ("sq0",), _EDGE_URL + rf"sq0[a-z]{{3}}-{_URL64}{{20,}}+"),
    SecretKind("shopify_token", "A Shopify token or shared secret (shpat_, shpca_, shppa_, shpss_).",
         ("shp",), _EDGE_URL + r"shp(?:at|ca|pa|ss|tka)_[0-9a-fA-F]{32,}+"),
    # --- developer tools
    SecretKind("atlassian_token", "An Atlassian or Bitbucket token (ATATT3, ATCTT3, ATBB).",
         ("ATATT", "ATCTT", "ATSTT", "ATBB"),
         _EDGE + r"(?:AT(?:AT|CT|ST)T3[A-Za-z0-9_=.\-]{30,}+|ATBB[A-Za-z0-9]{24,}+)"),
    SecretKind("linear_key", "A Linear API key (lin_api_, lin_oauth_).",
         ("lin_",), _EDGE_URL + r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}+"),
    SecretKind("notion_token", "A Notion integration token (ntn_, secret_).",
         ("ntn_", "secret_"), _EDGE_URL + r"(?:ntn_[A-Za-z0-9]{40,}+|secret_[A-Za-z0-9]{43}" + _END + ")"),
    SecretKind("figma_token", "A Figma access token (figd_).", ("figd_",), rf"figd_{_URL64}{{30,}}+"),
    SecretKind("hubspot_token", "A HubSpot private app token (pat-na1-).",
         ("pat-",), _EDGE_URL + r"pat-[a-z]{2}[0-9]-[0-9a-f]{8}-[0-9a-f\-]{20,}+"),
    SecretKind("postman_key", "A Postman API key (PMAK-).", ("PMAK-",), r"PMAK-[0-9a-f]{24}-[0-9a-f]{30,}+"),
    SecretKind("grafana_token", "A Grafana service account or cloud token (glsa_, glc_).",
         ("glsa_", "glc_"), _EDGE_URL + r"gl(?:sa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}|c_[A-Za-z0-9+/=]{40,}+)"),
    SecretKind("new_relic_key", "A New Relic user key (NRAK-).", ("NRAK-",), r"NRAK-[A-Z0-9]{24,}+"),
    SecretKind("sentry_dsn", "The key inside a Sentry DSN.",
         ("sentry",), r"://([0-9a-f]{32}(?::[0-9a-f]{32})?)@[A-Za-z0-9.\-]{0,80}sentry"),
    SecretKind("sentry_token", "A Sentry auth token (sntrys_, sntryu_).",
         ("sntry",), r"sntry[su]_[A-Za-z0-9+/=_\-]{40,}+"),
    SecretKind("age_secret_key", "An age identity (AGE-SECRET-KEY-1).",
         ("AGE-SECRET-KEY-", "age-secret-key-"), r"(?i:age-secret-key-(?:pq-)?1[a-z0-9]{40,}+)"),
    SecretKind("jwt", "A JSON Web Token: parts of base64 joined by dots, the first beginning with eyJ.",
         ("eyJ",), _EDGE_URL + rf"eyJ{_URL64}{{8,}}+\.{_URL64}{{8,}}+(?:\.{_URL64}++){{0,3}}"),
)  # fmt: skip

# Long words without a known beginning, searched for in every text with so long a word.
_LONG_SHAPES: tuple[SecretKind, ...] = (
    SecretKind("discord_token", "A Discord bot token: three parts joined by dots.",
         (), _EDGE_URL + rf"(?<!\.)[MNO]{_URL64}{{22,28}}\.{_URL64}{{6}}\.{_URL64}{{27,}}+"),
    SecretKind("mailgun_sending_key", "A Mailgun sending or signing key: 32, 8 and 8 hexadecimal digits.",
         (), _EDGE_URL + r"[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?![A-Za-z0-9\-])"),
    SecretKind("airtable_token", "An Airtable access token (pat….…).",
         (), _EDGE_URL + r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}" + _END),
)  # fmt: skip

# In a URL, the text between the colon and the last `@` before a slash.
_BEFORE_AT = r"[^\s/\"'`<>\\]{1,256}"
_BASE64_LINES = r"(?:(?:\s|\\[nr]|[\"'+,>|#*]){1,12}[A-Za-z0-9+/=]{16,}+){1,400}+"
_PEM_BODY = r"(?:[^\-]++|-(?!----(?:BEGIN|END)))*+-----END[A-Z0-9 ]{0,40}-----"

_PLACES: tuple[SecretKind, ...] = (
    SecretKind("gcp_service_account_key", "The private key in a Google service account file.",
         ("-----begin",),
         r"\"private_key\\?\"\s{0,4}:\s{0,4}\\?\""
         rf"(-{{5}}BEGIN PRIVATE KEY-{{5}}(?:{_PEM_BODY}|{_BASE64_LINES})(?:\\{{1,4}}n)?)"),
    SecretKind("ssh_private_key", "An OpenSSH private key.",
         ("-----begin", "b3blbnnzac1rzxktdjea"),
         rf"-{{5}}BEGIN OPENSSH PRIVATE KEY-{{5}}(?:{_PEM_BODY}|{_BASE64_LINES})"
         r"|b3BlbnNzaC1rZXktdjEA[A-Za-z0-9+/=\s]{40,}+"),
    SecretKind("private_key", "A private key in PEM or PGP armour, whole or cut off.",
         ("-----begin",),
         rf"-{{5}}BEGIN(?: [A-Z0-9]{{1,12}}){{0,3}} PRIVATE KEY(?: BLOCK)?-{{5}}(?:{_PEM_BODY}|{_BASE64_LINES})"),
    SecretKind("putty_private_key", "The private lines of a PuTTY key file.",
         ("private-lines:",), r"Private-Lines: [0-9]{1,4}((?:\s{1,2}[A-Za-z0-9+/=]{8,}+){1,400})"),
    SecretKind("aws_secret_key", "An AWS secret access key: 40 random characters in a text about AWS.",
         ("aws", "akia", "asia", "secretaccesskey", "secret_access_key"),
         r"(?<![A-Za-z0-9/+_\-])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=_\-])"),
    # Other schemes than the web's are databases, brokers, directories: there a password may contain a slash.
    SecretKind("connection_password",
         "The password in a database or broker address (postgres://user:…@host).",
         ("://",), r"://(?<!http://)(?<!https://)(?<!ftp://)(?<!ssh://)(?<!git://)[^\s:/@\"'`<>]{0,128}:"
         rf"({_BEFORE_AT}(?=@)|(?![0-9]{{1,5}}/)[^\s@\"'`<>\\]{{1,256}}+(?=@))"),
    SecretKind("url_password", "The password in a web address (https://user:…@host).",
         ("://",), rf"://[^\s:/@\"'`<>]{{0,128}}:({_BEFORE_AT})@"),
    SecretKind("url_token", "A token that stands alone before the @ of a web address.",
         ("://",), r"://([A-Za-z0-9_\-]{20,256})@"),
    SecretKind("authorization_header",
         "What follows Authorization: Bearer, Basic or Token, or the word Bearer alone.",
         ("authorization", "bearer "),
         r"(?i:(?:authorization\\{0,3}[\"'`]?\s{0,3}[:=,]\s{0,3}\\{0,3}[\"'`]?(?:[a-z0-9\-]{3,16}\s{1,3})?"
         r"|(?<![a-z0-9])bearer\s{1,3}))([A-Za-z0-9._~+/=:\-]{8,}+)"),
    SecretKind("cookie", "The values in a Cookie or Set-Cookie header.",
         ("cookie",),
         r"(?i:cookie)\\?[\"']?\s{0,2}:\s{0,3}\\?[\"']?([A-Za-z0-9_.\-]{1,64}=[^\s\"';\\]{8,}+(?:;\s?[^\s\"';\\]++){0,100})"),
    SecretKind("netrc_password", "The password in a netrc line (login … password …).",
         ("login",),
         r"(?:machine\s{1,4}[^\s]{1,128}|default)\s{1,4}login\s{1,4}[^\s]{1,128}\s{1,4}password\s{1,4}([^\s\"']{1,256}+)"),
    SecretKind("sql_password", "A password in SQL (IDENTIFIED BY '…', PASSWORD '…').",
         ("identified by", "password '"),
         r"(?i:identified(?:\s{1,2}with\s{1,2}\w{1,40})?\s{1,2}by|(?:with|set|encrypted|role|user)\s{1,2}password|password)\s{1,2}"
         r"'([^'\n]{1,256}+)'"),
    SecretKind("command_password", "A password on the command line of curl, sshpass, mysql or docker login.",
         ("curl", "wget", "sshpass", "mysql", "docker login"),
         r"(?:(?:curl|wget)\b[^\n|;]{0,80}?\s(?:-u\s{0,2}|--user[ =])[\"']?[^\s:\"']{1,128}:"
         r"|sshpass\s{1,2}-p\s{0,2}[\"']?|mysql(?:dump|admin)?\b[^\n|;]{0,60}?\s-p[\"']?"
         r"|docker login\b[^\n|;]{0,60}?\s-p\s{1,2}[\"']?)([^\s\"'|;]{1,256}+)"),
)  # fmt: skip

# A name and a value: `PASSWORD=…`, `--api-key …`, `"token": "…"`. `values` recognizes them, not a pattern.
_NAMED: tuple[SecretKind, ...] = (
    SecretKind("password", "The value given to a password or passphrase.", ("pass", "pwd"), ""),
    SecretKind("api_key", "The value given to an API key, access key, signing key or credential.",
         ("key", "credential", "auth"), ""),
    SecretKind("secret", "The value given to a secret, such as a client secret.", ("secret",), ""),
    SecretKind("token", "The value given to a token, such as an access token.", ("token",), ""),
)  # fmt: skip

#: Every kind of secret that is removed.
SECRET_KINDS: tuple[SecretKind, ...] = _SHAPES + _LONG_SHAPES + _PLACES + _NAMED

_SHAPES_BY_HINT = tuple((hint, kind) for kind in _SHAPES for hint in kind.hints)
_PLACES_BY_HINT = tuple((hint, kind) for kind in _PLACES for hint in kind.hints)
_NAME_HINTS = tuple(hint for kind in _NAMED for hint in kind.hints)

# Removing one secret can uncover the next, whose left edge is now free. Two passes are usual; the limit bounds the
# time that a hostile text can take.
_PASSES = 6

# A longer value is not a password.
_MAX_NAMED_LENGTH: Final = 500


def redact(text: str) -> RedactedText:
    """The text with each secret replaced by `[redacted:KIND]`. Redacting again changes nothing."""
    counts: dict[str, int] = {}
    for _ in range(_PASSES):
        before = text
        text = _redact_once(text, counts)
        if text is before:
            break
    return RedactedText(text, counts)


def _redact_once(text: str, counts: dict[str, int]) -> str:
    before = text
    words = [word for word in text.split() if len(word) >= _MIN_SHAPE_LENGTH]
    if words:
        suspect = " ".join(words)
        # Most long words are lower-case paths, and a random token never is.
        if pattern("[0-9A-Z]").search(suspect):
            for hint, kind in _SHAPES_BY_HINT:
                if hint in suspect:
                    text = _redact_kind(kind, text, counts)
            if len(max(words, key=len)) >= _LONG_SHAPE_LENGTH:
                for kind in _LONG_SHAPES:
                    text = _redact_kind(kind, text, counts)
    low = _lower(text)
    for hint, kind in _PLACES_BY_HINT:
        if hint in low:
            text = _redact_kind(kind, text, counts)
    if text is not before:
        low = _lower(text)
    for hint in _NAME_HINTS:
        if hint in low:
            return redact_named_values(text, low, counts)
    return text


def _lower(text: str) -> str:
    """The text in lower case, with every character at its position: `İ` would become two."""
    low = text.lower()
    return low if len(low) == len(text) else text.replace("İ", "i").lower()


def _redact_kind(kind: SecretKind, text: str, counts: dict[str, int]) -> str:
    spans: list[tuple[int, int, str]] = []
    for match in pattern(kind.pattern).finditer(text):
        start, end = match.span(match.lastindex or 0)
        if _is_credible(kind.name, text[start:end]):
            spans.append((start, end, kind.name))
    return replace_spans(text, spans, counts)


def _is_credible(name: str, value: str) -> bool:
    """Whether a match is a secret: examples and variables match too."""
    match name:
        case "aws_secret_key":
            # A SHA-1 has 40 characters too, but of one case.
            return changes_in(value) >= 12 and not (value.islower() or value.isupper())
        case "url_token":
            return changes_in(value) * 5 >= min(len(value), 64)
        case "authorization_header":
            return not (is_placeholder(value) or is_wordy(value))
        case "private_key" | "ssh_private_key" | "gcp_service_account_key":
            # A sentence that quotes the two armour lines has no key between them.
            return pattern(r"[A-Za-z0-9+/=]{16}").search(value, 24) is not None
        case "connection_password" | "url_password" | "netrc_password" | "sql_password":
            return not is_placeholder(value)
        case "command_password":
            return not (is_placeholder(value) or value.isdigit())
        case "cookie":
            return not is_marked(value.partition("=")[2]) and "$" not in value and "<" not in value
        case _:
            return True


# ── whole documents ──────────────────────────────────────────────────────────────────────────────────────


class RedactedDocument(NamedTuple):
    """A document without its secrets, and how many of each kind were in it."""

    value: Json
    counts: dict[str, int]


def redact_document(value: Json) -> RedactedDocument:
    """The document with each secret replaced by `[redacted:KIND]`; the same object where there is none.

    Keys are searched too, and a value counts as secret if its key says so.
    """
    counts: dict[str, int] = {}
    return RedactedDocument(_redact_value(value, None, counts), counts)


def _redact_value(value: Json, key: str | None, counts: dict[str, int]) -> Json:
    if isinstance(value, str):
        return _redact_text(value, key, counts)
    if isinstance(value, dict):
        copy: dict[str, Json] = {}
        for name, item in value.items():
            copy[_redact_key(name, value, copy, counts)] = _redact_value(item, name, counts)
        unchanged = all(
            name == old and item is value[old] for (name, item), old in zip(copy.items(), value, strict=True)
        )
        return value if unchanged else copy
    if isinstance(value, list):
        items = [_redact_value(item, key, counts) for item in value]
        return value if all(item is old for item, old in zip(items, value, strict=True)) else items
    return value


def _redact_key(name: str, original: dict[str, Json], copy: dict[str, Json], counts: dict[str, int]) -> str:
    """The key without its secret, numbered if another key would become equal and lose its value."""
    clean = key = _redact_text(name, None, counts)
    number = 1
    while clean != name and (key in copy or key in original):
        number += 1
        key = f"{clean} {number}"
    return key


def _redact_text(value: str, key: str | None, counts: dict[str, int]) -> str:
    redacted = redact(value)
    if redacted.counts:
        _add_counts(redacted.counts, counts)
        value = redacted.text  # the rest may still be what the key says; redacting again changes nothing else
    if key and len(value) <= _MAX_NAMED_LENGTH and "\n" not in value:
        before = f"{key}: "
        redacted_pair = redact(before + value)
        if redacted_pair.counts and redacted_pair.text.startswith(before):
            _add_counts(redacted_pair.counts, counts)
            return redacted_pair.text.removeprefix(before)
    return value


def _add_counts(more: dict[str, int], counts: dict[str, int]) -> None:
    for kind, count in more.items():
        counts[kind] = counts.get(kind, 0) + count
