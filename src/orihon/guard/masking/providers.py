r"""The key formats of the well-known providers, as data.

A key that begins with a word and a mark (``ghp_``, ``xai-``, ``hvs.``) is a ``Prefixed`` row; one without such a
beginning is a row ``(kind, before, anchor, then, after)`` as ``rules.key`` takes it: ``before``, the anchor, ``then``
are fixed, ``after`` is the rest. Keys without any form of their own (Datadog, Mistral, Cohere, Azure) are found by the
name beside them, in ``named_values``.
"""

from __future__ import annotations

from typing import NamedTuple

Row = tuple[str, str, str, str, str]


class Prefixed(NamedTuple):
    """Kind, the words before the mark, what follows it, characters of the rest, how many of them at least."""

    kind: str
    words: str  # divided by blanks
    then: str
    characters: str
    least: int


_HEX = "0-9a-f"
_ALNUM = "A-Za-z0-9"
_WORD = "A-Za-z0-9_"
_DASHED = "A-Za-z0-9_-"

UNDERSCORED = (
    Prefixed("STRIPE_WEBHOOK_SECRET", "whsec", "", "A-Za-z0-9+/", 24),
    Prefixed("DOCKER_TOKEN", "dckr", "[po]at_", _DASHED, 20),
    Prefixed("DIGITALOCEAN_TOKEN", "doo dop dor", "v1_", _HEX, 40),
    Prefixed("SHOPIFY_TOKEN", "shpat shpca shppa shpss shptka", "", "0-9a-fA-F", 32),
    Prefixed("LINEAR_KEY", "lin", "(?:api|oauth)_", _ALNUM, 32),
    Prefixed("NOTION_TOKEN", "ntn", "", _ALNUM, 40),
    Prefixed("NOTION_TOKEN", "secret", "", _ALNUM, 43),
    Prefixed("SUPABASE_TOKEN", "sbp", "", "0-9a-f_", 40),
    Prefixed("SUPABASE_TOKEN", "sb", "secret_", _DASHED, 20),
    Prefixed("PLANETSCALE_TOKEN", "pscale", "(?:tkn|pw|oauth)_", "A-Za-z0-9_.=-", 32),
    Prefixed("GROQ_KEY", "gsk", "", _ALNUM, 40),
    Prefixed("REPLICATE_TOKEN", "r8", "", _ALNUM, 30),
    Prefixed("SENTRY_TOKEN", "sntrys sntryu", "", "A-Za-z0-9_=+/-", 40),
    Prefixed("GRAFANA_TOKEN", "glsa", "", _WORD, 32),
    Prefixed("GRAFANA_TOKEN", "glc", "", "A-Za-z0-9+/=", 32),
    Prefixed("FIGMA_TOKEN", "figd figo figr figu", "", _DASHED, 36),
    Prefixed("VERCEL_TOKEN", "vcp vcc vci vca vcr vck", "", _ALNUM, 24),
    Prefixed("NETLIFY_TOKEN", "nfp nfc nfo nfu nfb", "", _ALNUM, 36),
    Prefixed("CLOUDFLARE_TOKEN", "cfut cfat cfk", "", _DASHED, 40),
    Prefixed("RUBYGEMS_KEY", "rubygems", "", _HEX, 40),
    Prefixed("TYPEFORM_TOKEN", "tfp", "", "A-Za-z0-9_.=-", 40),
    Prefixed("PREFECT_KEY", "pnu pnb", "", _ALNUM, 36),
    Prefixed("README_KEY", "rdme", "", "A-Za-z0-9", 60),
    Prefixed("SHIPPO_TOKEN", "shippo", "live_", _HEX, 32),
    Prefixed("DUFFEL_TOKEN", "duffel", "(?:live|test)_", "A-Za-z0-9_=-", 40),
    Prefixed("LANGSMITH_KEY", "lsv2", "[ps][tk]_", _WORD, 32),
    Prefixed("PINECONE_KEY", "pcsk", "", _WORD, 40),
    Prefixed("FIREWORKS_KEY", "fw", "", _ALNUM, 22),
    Prefixed("JINA_KEY", "jina", "", _DASHED, 40),
    Prefixed("E2B_KEY", "e2b", "", _HEX, 32),
    Prefixed("DAYTONA_KEY", "dtn", "", _HEX, 40),
    Prefixed("RESEND_KEY", "re", "[A-Za-z0-9]{8}_", _ALNUM, 20),
    Prefixed("SOURCEGRAPH_TOKEN", "sgp", "", _WORD, 40),
    Prefixed("BUILDKITE_TOKEN", "bkua bkaa", "", _ALNUM, 40),
    Prefixed("CIRCLECI_TOKEN", "CCIPAT CCIPRJ", "", _WORD, 40),
    Prefixed("SONAR_TOKEN", "sqp squ sqa", "", _HEX, 40),
    Prefixed("ONEPASSWORD_TOKEN", "ops", "eyJ", "A-Za-z0-9_=+/-", 40),
    Prefixed("POSTHOG_KEY", "phx", "", _ALNUM, 40),
    Prefixed("YANDEX_TOKEN", "y0 y1 y2 y3", "", _DASHED, 50),
    Prefixed("FLY_TOKEN", "fm1 fm2 fo1", "", "A-Za-z0-9+/=_,-", 40),
    Prefixed("ELEVENLABS_KEY", "sk", "", _HEX, 48),
    Prefixed("ADAFRUIT_KEY", "aio", "", _ALNUM, 28),
    Prefixed("CLOJARS_TOKEN", "CLOJARS", "", "a-z0-9", 60),
    Prefixed("TRIGGER_KEY", "tr", "(?:dev|stg|pat|prod)_", _ALNUM, 20),
    Prefixed("CLERK_KEY", "ak", "", _ALNUM, 36),
    Prefixed("WORKOS_KEY", "sk", "(?:live|test)_", _WORD, 20),
    Prefixed("NGROK_KEY", "ak", "2", _ALNUM, 26),
    Prefixed("ASANA_TOKEN", "asana", "pat_", _WORD, 24),
    # Our own grants: see ``tasks/grants``.
    Prefixed("ORIHON_TOKEN", "orihon", "", _DASHED, 43),
)

DASHED = (
    Prefixed("SLACK_TOKEN", "xapp xwfp", "", "A-Za-z0-9-", 24),
    Prefixed("GOOGLE_OAUTH_SECRET", "GOCSPX", "", _DASHED, 20),
    Prefixed("SQUARE_TOKEN", "sq0atp sq0csp sq0idp", "", _DASHED, 22),
    Prefixed("XAI_KEY", "xai", "", _ALNUM, 40),
    Prefixed("PERPLEXITY_KEY", "pplx", "", _ALNUM, 32),
    Prefixed("NVIDIA_KEY", "nvapi", "", _DASHED, 40),
    Prefixed("CEREBRAS_KEY", "csk", "", _ALNUM, 32),
    Prefixed("TAVILY_KEY", "tvly", "", _DASHED, 24),
    Prefixed("FIRECRAWL_KEY", "fc", "", _HEX, 32),
    Prefixed("VOYAGE_KEY", "pa", "", _DASHED, 40),
    Prefixed("LANGFUSE_KEY", "sk", "lf-", "0-9a-f-", 32),
    Prefixed("HEROKU_KEY", "HRKU", "", _DASHED, 30),
    Prefixed("POSTMAN_KEY", "PMAK", "", "0-9a-f-", 40),
    Prefixed("NEWRELIC_KEY", "NRAK NRJS NRII NRIQ NRAA NRRA NRSP", "", _DASHED, 19),
    Prefixed("BREVO_KEY", "xkeysib xsmtpsib", "", "A-Za-z0-9-", 60),
    Prefixed("PULUMI_TOKEN", "pul", "", _HEX, 40),
    Prefixed("TAILSCALE_KEY", "tskey", "", "A-Za-z0-9-", 16),
    Prefixed("CONTENTFUL_TOKEN", "CFPAT", "", _DASHED, 40),
    Prefixed("INFRACOST_KEY", "ico", "", _ALNUM, 32),
    Prefixed("FRAMEIO_TOKEN", "fio", "u-", _DASHED, 60),
    Prefixed("SCALINGO_TOKEN", "tk", "us-", _DASHED, 40),
    Prefixed("AGE_SECRET_KEY", "AGE", "SECRET-KEY-1", "A-Z0-9", 50),
    Prefixed("MAILGUN_KEY", "key", "", _HEX, 32),
    Prefixed("LAUNCHDARKLY_KEY", "api sdk", "", "0-9a-f-", 36),
    Prefixed("MODAL_TOKEN", "ak as", "", _ALNUM, 22),
    Prefixed("ONEPASSWORD_KEY", "A3", "[A-Z0-9]{6}-", "A-Z0-9-", 26),
    Prefixed("CLOUDFLARE_ORIGIN_KEY", "v1.0", "", "0-9a-f-", 100),
    Prefixed("AZURE_DEVOPS_TOKEN", "vss", "pat-", _ALNUM, 40),
)

DOTTED = (
    Prefixed("HASHICORP_TOKEN", "hvs hvb hvr", "", _DASHED, 20),
    Prefixed("SENDGRID_KEY", "SG", r"[A-Za-z0-9_-]{16,32}\.", _DASHED, 30),
    Prefixed("DOPPLER_TOKEN", "dp.pt dp.st dp.ct dp.sa dp.scim", "", "A-Za-z0-9_.-", 30),
    Prefixed("GOOGLE_ACCESS_TOKEN", "ya29", "", _DASHED, 24),
    Prefixed("MAILERSEND_KEY", "mlsn", "", _HEX, 40),
    Prefixed("DYNATRACE_TOKEN", "dt0c01 dt0s01 dt0s02 dt0s16", r"[A-Z0-9]{20,24}\.", "A-Z0-9", 60),
    Prefixed("DROPBOX_TOKEN", "sl", "", _DASHED, 60),
    Prefixed("MAPBOX_TOKEN", "sk", "eyJ", "A-Za-z0-9_.-", 40),
)


def _run(characters: str, least: int) -> str:
    return f"[{characters}]{{{least},}}+"


_HEX_31 = rf"[{_HEX}]{{31}}(?![A-Za-z0-9_-])"

AFTER_DOT: tuple[Row, ...] = (
    ("AIRTABLE_TOKEN", "pat[A-Za-z0-9]{14}", ".", "", _run(_HEX, 60)),
    ("TERRAFORM_TOKEN", r"[A-Za-z0-9]{14}\.atlasv1", ".", "", _run(_DASHED, 60)),
    *(
        ("DISCORD_TOKEN", rf"[MNO][A-Za-z0-9_-]{{{width}}}\.[A-Za-z0-9_-]{{6}}", ".", "", _run(_DASHED, 27))
        for width in range(23, 28)
    ),
)

PROVIDER_KEYS: tuple[Row, ...] = (
    ("MAILCHIMP_KEY", "[0-9a-f]{30}[0-9a-f][0-9a-f]", "-", "us", r"[0-9]{1,2}+(?![A-Za-z0-9_-])"),
    ("ATLASSIAN_TOKEN", "", "A", "T[AC]TT3", r"[A-Za-z0-9_=-]{40,}+"),
    ("BITBUCKET_TOKEN", "", "A", "TBB", r"[A-Za-z0-9_=-]{24,}+"),
    ("ALIBABA_KEY", "LT", "A", "I", r"[A-Za-z0-9]{12,}+"),
    ("BEDROCK_KEY", "", "A", "BSK", r"[A-Za-z0-9+/]{80,}+={0,2}"),
    ("TWILIO_SID", "", "A", f"C[{_HEX}]", _HEX_31),
    ("META_TOKEN", "E", "A", "A", r"[A-Za-z0-9_-]{50,}+"),
    ("TENCENT_KEY", "", "A", "KID", r"[A-Za-z0-9]{32,}+"),
    ("ARTIFACTORY_KEY", "", "A", "KC[a-zA-Z0-9]", r"[A-Za-z0-9]{60,}+"),
    ("TWITTER_TOKEN", "", "A", "AAAAAAAAAAAAA", r"(?=A{0,24}+[B-Za-z0-9%_-])[A-Za-z0-9%_-]{60,}+"),
    ("AZURE_CLIENT_SECRET", "[A-Za-z0-9_~.-]{3}[78]Q", "~", "", r"[A-Za-z0-9_~.-]{31,}+"),
    *(("TELEGRAM_TOKEN", f"[0-9]{{{width}}}:", "A", "A", r"[A-Za-z0-9_-]{32,}+") for width in (8, 9, 10)),
    ("GOOGLE_REFRESH_TOKEN", "", "1//0", "", _run(_DASHED, 30)),
    ("OPENSHIFT_TOKEN", "sha256", "~", "", _run(_DASHED, 40)),
)  # fmt: skip

# Keys without a mark. An escape may end with their first letter: nothing is cut there.
RUN_KEYS: tuple[Row, ...] = (
    ("JWT", "ey", "J", "", r"[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]{8,}+){1,3}+"),
    ("TWILIO_KEY", "S", "K", f"[{_HEX}]", _HEX_31),
    ("DATABRICKS_TOKEN", "dap", "i", "", r"[0-9a-f]{32}(?:-[0-9])?+"),
)

# Addresses that let everybody in who knows them, after their "://".
HOOKS = (
    r"hooks\.slack\.com/(?:services|workflows|triggers)/()[A-Za-z0-9/_-]{20,}+",
    r"(?:[a-z]{1,12}\.)?discord(?:app)?\.com/api/(?:v[0-9]{1,2}/)?webhooks/()[0-9]{16,20}/[A-Za-z0-9_-]{40,}+",
    r"[A-Za-z0-9.-]{1,64}\.office\.com/webhookb2/()[A-Za-z0-9@/_-]{40,}+",
    r"hooks\.zapier\.com/hooks/catch/()[A-Za-z0-9/]{8,}+",
    # A key in the place of a user: Sentry's addresses, tokens for git.
    r"()(?=[A-Za-z_-]{0,20}[0-9])[A-Za-z0-9_-]{24,128}+(?=@[A-Za-z0-9])",
)
