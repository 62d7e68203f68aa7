# ruff: noqa: E501 - tables
"""Messages of agents with secrets in them, put together at run time so that secret scanners find nothing in this file.

``provider_tokens`` gives one token of every well-known form, ``messages`` texts with the values that must not stay in
them, in two halves: rules are written with ``"known"``, and measured on ``"unseen"``, which has other sentences.
``told`` gives whole messages with several values, written before the rules were read (89 of 102 values went then),
with those of ``masking_transcripts``; ``mended`` gives forms that were missing once;
``look_alikes`` what must stay as it is.
"""

from __future__ import annotations

import random
import re
import string
from base64 import b64encode
from collections.abc import Callable, Iterator

from tests.masking_transcripts import HARD_LOOK_ALIKES, MENDED, TRANSCRIPTS

ALNUM = string.ascii_letters + string.digits
LOWER = string.ascii_lowercase + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
DASHED = ALNUM + "-_"

# Prefix, alphabet, length; several parts are joined by what stands between them.
FORMS: dict[str, tuple[str, str, int]] = {
    "openai": ("sk" + "-", ALNUM, 48), "openai project": ("sk" + "-proj-", DASHED, 120),
    "openai service": ("sk" + "-svcacct-", DASHED, 120), "openai admin": ("sk" + "-admin-", DASHED, 100),
    "anthropic": ("sk" + "-ant-api03-", DASHED, 93), "openrouter": ("sk" + "-or-v1-", HEX, 64),
    "deepseek": ("sk" + "-", HEX, 32), "google": ("AI" + "za", DASHED, 35), "google client": ("GOC" + "SPX-", DASHED, 28),
    "google access": ("ya" + "29.", DASHED, 120), "google refresh": ("1/" + "/0", DASHED, 60),
    "aws": ("AK" + "IA", UPPER, 16), "aws temporary": ("AS" + "IA", UPPER, 16), "github": ("gh" + "p_", ALNUM, 36),
    "github oauth": ("gh" + "o_", ALNUM, 36), "github user": ("gh" + "u_", ALNUM, 36),
    "github server": ("gh" + "s_", ALNUM, 36), "github refresh": ("gh" + "r_", ALNUM, 76),
    "github fine": ("github" + "_pat_", ALNUM, 82), "gitlab": ("gl" + "pat-", ALNUM, 20),
    "gitlab deploy": ("gl" + "dt-", ALNUM, 20), "gitlab runner": ("gl" + "rt-", ALNUM, 20),
    "gitlab trigger": ("gl" + "ptt-", HEX, 40), "slack bot": ("xo" + "xb-", string.digits, 12),
    "slack app": ("xa" + "pp-1-A", UPPER, 40), "slack user": ("xo" + "xp-1", string.digits, 40),
    "stripe": ("sk" + "_live_", ALNUM, 24), "stripe test": ("sk" + "_test_", ALNUM, 24),
    "stripe hook": ("wh" + "sec_", ALNUM, 32), "hugging face": ("hf" + "_", string.ascii_letters, 34),
    "npm": ("np" + "m_", ALNUM, 36), "pypi": ("py" + "pi-AgEIcHlwaS5vcmc", DASHED, 150),
    "docker": ("dckr" + "_pat_", DASHED, 27), "digitalocean": ("dop" + "_v1_", HEX, 64),
    "cloudflare": ("cfut" + "_", ALNUM, 48), "databricks": ("da" + "pi", HEX, 32), "twilio": ("S" + "K", HEX, 32),
    "mailgun": ("ke" + "y-", HEX, 32), "shopify": ("sh" + "pat_", HEX, 32), "square": ("sq0" + "csp-", DASHED, 43),
    "linear": ("lin" + "_api_", ALNUM, 40), "notion": ("nt" + "n_", ALNUM, 46), "notion old": ("sec" + "ret_", ALNUM, 43),
    "atlassian": ("AT" + "ATT3xFfGF0", DASHED, 180), "bitbucket": ("AT" + "BB", ALNUM, 32),
    "doppler": ("dp" + ".pt.", ALNUM, 43), "vault": ("hv" + "s.", DASHED, 95), "vercel": ("vc" + "p_", ALNUM, 40),
    "netlify": ("nf" + "p_", ALNUM, 36), "supabase": ("sb" + "p_", HEX, 40), "planetscale": ("pscale" + "_tkn_", DASHED, 43),
    "groq": ("gs" + "k_", ALNUM, 52), "xai": ("xa" + "i-", ALNUM, 80), "perplexity": ("pp" + "lx-", ALNUM, 48),
    "replicate": ("r8" + "_", ALNUM, 37), "new relic": ("NR" + "AK-", UPPER, 27), "sentry": ("sntr" + "ys_", ALNUM, 80),
    "grafana": ("gl" + "sa_", ALNUM, 41), "grafana cloud": ("gl" + "c_", ALNUM, 60), "postman": ("PM" + "AK-", HEX, 59),
    "figma": ("fi" + "gd_", DASHED, 43), "sendgrid": ("S" + "G.", DASHED, 22), "airtable": ("pa" + "t", ALNUM, 14),
    "age": ("AGE-" + "SECRET-KEY-1", UPPER, 58), "tailscale": ("ts" + "key-auth-", ALNUM, 30),
    "pinecone": ("pc" + "sk_", ALNUM, 60), "nvidia": ("nv" + "api-", DASHED, 64), "langsmith": ("ls" + "v2_pt_", HEX, 43),
    "tavily": ("tv" + "ly-", ALNUM, 32), "rubygems": ("ruby" + "gems_", HEX, 48), "pulumi": ("pu" + "l-", HEX, 40),
    "brevo": ("xkey" + "sib-", HEX, 64), "alibaba": ("LT" + "AI5t", ALNUM, 20), "resend": ("re" + "_", ALNUM, 8),
    "orihon": ("orihon" + "_", DASHED, 43),
    "heroku": ("HR" + "KU-", DASHED, 40), "onepassword": ("op" + "s_eyJ", ALNUM, 120), "sonar": ("sq" + "p_", HEX, 40),
}  # fmt: skip
_TAILS: dict[str, tuple[str, str, int]] = {
    "slack bot": ("-", ALNUM, 24), "sendgrid": (".", DASHED, 43), "airtable": (".", HEX, 64), "brevo": ("-", ALNUM, 16),
    "resend": ("_", ALNUM, 24),
}  # fmt: skip


class Maker:
    """Values as providers, programs and people make them; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def run(self, alphabet: str, length: int) -> str:
        """A random text."""
        return "".join(self._random.choices(alphabet, k=length))

    def token(self, form: str) -> str:
        """A token of one provider."""
        prefix, alphabet, length = FORMS[form]
        tail = _TAILS.get(form)
        return prefix + self.run(alphabet, length) + (tail[0] + self.run(tail[1], tail[2]) if tail else "")

    def any_token(self) -> str:
        """A token of some provider."""
        return self.token(self._random.choice(sorted(FORMS)))

    def password(self) -> str:
        """A password as people choose them."""
        words = ("Summer", "hunter", "Tokyo", "dragon", "Blue", "sakura", "Winter", "monkey", "Kyoto", "falcon")
        word = self._random.choice(words)
        return self._random.choice(
            [f"{word}{self.run(string.digits, 4)}!", f"{word}@{self.run(string.digits, 2)}", self.run(ALNUM, 12),
             f"{word.lower()}{self.run(string.digits, 3)}", self.run(ALNUM, 8) + self.run("!#%^*", 2) + self.run(ALNUM, 4),
             f"P{self.run(LOWER, 4)}w0rd{self.run('!$#', 1)}"]
        )  # fmt: skip

    def key(self) -> str:
        """A key without a form of its own."""
        return self._random.choice(
            [self.run(HEX, 32), self.run(ALNUM, 40), self.run(DASHED.strip("-_"), 43), self.run(HEX, 64)]
        )

    def jwt(self) -> str:
        """A JSON web token."""
        head = b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
        body = b64encode(b'{"sub":"' + self.run(ALNUM, 12).encode() + b'"}').decode().rstrip("=")
        return f"{head}.{body}.{self.run(DASHED, 43)}"

    def base64(self) -> str:
        """Base64 of a line with a secret."""
        return b64encode(f"API_TOKEN={self.token('github')}".encode()).decode()

    def pem(self) -> str:
        """A private key."""
        lines = "\n".join(self.run(ALNUM + "+/", 64) for _ in range(4))
        return "-----BEGIN RSA PRIVATE " + f"KEY-----\n{lines}\n-----END RSA PRIVATE " + "KEY-----"

    def pin(self) -> str:
        """A number for a door."""
        return self.run(string.digits, 4)

    def marked(self, length: int) -> str:
        """A password as programs make them: a mark among letters and digits."""
        half = (length - 2) // 2
        return (
            self.run(ALNUM, half)
            + self.run("!#%*+-_?^", 1)
            + self.run(string.digits, 1)
            + self.run(ALNUM, length - half - 2)
        )

    def encoded(self, text: str) -> str:
        """Base64 of a text."""
        return b64encode(text.encode()).decode()

    def blank(self, name: str) -> str:
        """What a blank of a template stands for: a provider's token, a form by name, or a letter and a length."""
        if name in FORMS:
            return self.token(name)
        if name in ("pem", "jwt"):
            return self.pem() if name == "pem" else self.jwt()
        if name == "basic":
            return self.encoded(f"deploy:{self.marked(14)}")
        if name == "b64env":
            return self.encoded(f"DB_HOST=db\nDB_PASSWORD={self.run(ALNUM, 20)}\nAPI_TOKEN={self.run(ALNUM, 32)}\n")
        if name == "b64pem":
            return self.encoded(self.pem())
        if name == "code":
            return f"{self.run(ALNUM, 4)}{self.pin()[0]}-{self.run(ALNUM, 5)}"
        if name == "run":
            return self.run(ALNUM, 1) * 100
        if name == "uuid":
            return "-".join(self.run(HEX, length) for length in (8, 4, 4, 4, 12))
        return self._run_of(name[0], int(name[1:]))

    def _run_of(self, letter: str, length: int) -> str:
        if letter == "p":
            return self.marked(length)
        if letter == "b":
            return self.encoded(self.marked(length))
        if letter == "m":
            names = ("Moss", "Kelp", "Heron", "Slate", "Tundra", "Hazel", "Momiji", "Kawa", "Sakura", "Juniper", "Wren")
            first, second = self._random.sample(names, 2)
            return first + self.run("-_#!+.", 1) + second + self.run(string.digits, length)
        if letter in "ws":
            words = ("maple", "otter", "lantern", "quiet", "river", "copper", "violet", "pepper", "tundra", "saddle")
            return ("-" if letter == "w" and length > 3 else " ").join(self._random.sample(words, length))
        alphabets = {"a": ALNUM, "h": HEX, "X": HEX.upper(), "U": UPPER, "d": string.digits, "B": ALNUM + "+/"}
        return self.run(alphabets[letter], length)


def provider_tokens(seed: int, each: int = 3) -> Iterator[tuple[str, str]]:
    """Name of the form, and a token."""
    maker = Maker(seed)
    for form in FORMS:
        for _ in range(each):
            yield form, maker.token(form)


_T, _P, _K = Maker.any_token, Maker.password, Maker.key
Template = tuple[Callable[[Maker], str], str]

_KNOWN: tuple[Template, ...] = (
    (_T, "I set the token to {} and ran the deploy again."), (_T, "export TOKEN={}\n./deploy.sh"),
    (_T, '{{"tool": "http", "headers": {{"x-key": "{}"}}}}'), (_T, "error: 401 Unauthorized (key {} was revoked)"),
    (_T, "トークン {} を使って再実行しました。"), (_T, "The CI log shows `{}` in plain text."), (_T, "curl https://api.example.com/v1?key={}"),
    (_T, "keys:\n  - {}\n  - other"), (_T, "git remote set-url origin https://{}@example.com/a/b.git"), (_T, "新しいキーは「{}」です。"),
    (_P, "DB_PASSWORD={}"), (_P, "export PGPASSWORD='{}'"), (_P, "password: {}"), (_P, 'password: "{}"'),
    (_P, '{{"user": "admin", "password": "{}"}}'), (_P, "The password is {}."), (_P, "the admin password is {} for now"),
    (_P, "My password for the staging server is {}"), (_P, "パスワードは{}です。"), (_P, "パスワード：{}"), (_P, "パスワードは「{}」に変更しました。"),
    (_P, "db.connect(user='app', password='{}')"), (_P, "mysql -u root -p{} shop"), (_P, "sshpass -p {} ssh deploy@10.0.0.4"),
    (_P, "Server=db;Database=shop;User Id=sa;Password={};Encrypt=true"), (_P, "postgres://app:{}@db.internal:5432/shop"),
    (_P, "redis://:{}@cache:6379/0"), (_P, "amqp://guest:{}@mq/vhost"), (_P, "mongodb+srv://root:{}@cluster0.example.net"),
    (_P, "curl -u admin:{} https://jenkins.example.com/job"), (_P, "spring.datasource.password={}"), (_P, "  passwd = {}\n  host = x"),
    (_P, "<password>{}</password>"), (_P, "--password {} --host db"), (_P, "--db-password={}"), (_P, "machine api.example.com login me password {}"),
    (_P, "ログイン用のパスワードは {} になります"), (_P, "I changed the root password to {}"), (_P, "SMTP_PASS={}"), (_P, "$env:ADMIN_PASSWORD = \"{}\""),
    (_P, "ENV MYSQL_ROOT_PASSWORD={}"), (_P, "docker run -e POSTGRES_PASSWORD={} postgres"), (_P, "os.environ['DB_PASSWORD'] = '{}'"),
    (_P, "**Password:** `{}`"), (_P, "| password | {} |"), (_P, "credentials: admin / {}"), (_P, "passphrase: {}"),
    (_K, "API_KEY={}"), (_K, "api_key: {}"), (_K, '"apiKey": "{}"'), (_K, "X-API-Key: {}"), (_K, "client_secret = \"{}\""),
    (_K, "AZURE_OPENAI_API_KEY={}"), (_K, "DD_API_KEY: {}"), (_K, "MISTRAL_API_KEY='{}'"), (_K, "COHERE_API_KEY={}"),
    (_K, "SECRET_KEY = '{}'"), (_K, "The API key is {}."), (_K, "APIキーは {} です"), (_K, "アクセストークンは{}です"),
    (_K, "AccountName=x;AccountKey={};EndpointSuffix=core.windows.net"), (_K, "access_token={}&expires=3600"), (_K, "--token {}"),
    (_K, "Authorization: Token {}"), (_K, "jwt_secret: '{}'"), (_K, "ENCRYPTION_KEY={}"), (_K, "Set-Cookie: session={}; Path=/; HttpOnly"),
    (_K, "Cookie: theme=dark; sessionid={}"), (_K, "aws_secret_access_key = {}"), (_K, "https://x.blob.core.windows.net/c?sv=2024&sig={}"),
    (_K, "secret: {}"), (_K, "signing_key=\"{}\""), (_K, "auth_token := \"{}\""), (_K, "シークレットキー: {}"),
    (Maker.jwt, "Authorization: Bearer {}"), (Maker.jwt, "the id token was {}"), (Maker.base64, "echo {} | base64 -d"),
    (Maker.base64, "  token: {}\nkind: Secret"), (Maker.pem, "cat id_rsa\n{}\n$"), (Maker.pin, "暗証番号は{}です"),
    (_P, "\\\"password\\\": \\\"{}\\\""), (_P, "I logged in with password {} and it worked"),
)  # fmt: skip

_UNSEEN: tuple[Template, ...] = (
    (_T, "Please use {} for the API."), (_T, "found in .env: VENDOR={}"), (_T, "{}"), (_T, "log line: token={} user=7"),
    (_T, "{{\"arguments\": \"{{\\\"key\\\": \\\"{}\\\"}}\"}}"), (_T, "APIの鍵は {} でした。"), (_T, "headers = {{'Authorization': '{}'}}"),
    (_T, "# old key: {}"), (_T, "<key>{}</key>"), (_T, "設定ファイルに{}と書いてあります"),
    (_P, "ADMIN_PASSWORD=\"{}\""), (_P, "set PASSWORD={}"), (_P, "DATABASE_PASS: {}"), (_P, "  db_password: '{}'"),
    (_P, "[mysql]\nuser=root\npassword={}\n"), (_P, "'password' => '{}',"), (_P, "password := \"{}\""), (_P, "const password = `{}`;"),
    (_P, "conn = psycopg.connect(f\"dbname=x user=y password={}\")"), (_P, "Try logging in as root with the password {}"),
    (_P, "The new passphrase is {}"), (_P, "Your temporary password is: {}"), (_P, "FYI the wifi password is {} (do not share)"),
    (_P, "it turns out the password was {}"), (_P, "password for the database: {}"), (_P, "パスワードを{}に設定してください。"),
    (_P, "管理者のパスワードは {} だそうです"), (_P, "初期パスワード: {}"), (_P, "パスワードは「{}」です。忘れないでください"), (_P, "パスワード={}"),
    (_P, "ユーザー名はadmin、パスワードは{}です"), (_P, "mysqldump -uroot -p'{}' shop"), (_P, "docker login -u me -p {} registry"),
    (_P, "redis-cli -a {} ping"), (_P, "curl --user me:{} https://x"), (_P, "https://ci:{}@git.example.com/x.git"),
    (_P, "mysql://root:{}@127.0.0.1/shop"), (_P, "Data Source=db;Initial Catalog=x;User ID=sa;Pwd={};"),
    (_P, "jdbc:sqlserver://db;user=sa;password={};encrypt=true"), (_P, "ftp://user:{}@files.example.com/"),
    (_P, "- name: DB_PASSWORD\n  value: \"{}\""), (_P, "\"name\": \"PASSWORD\", \"value\": \"{}\""), (_P, "htpasswd -b f admin {}"),
    (_P, "password\": \"{}\", \"role"), (_P, "setPassword(\"{}\")"), (_P, "user_password={}&login=1"), (_P, "echo \"{}\" | sudo -S ls"),
    (_P, "ALTER USER app WITH PASSWORD '{}';"), (_P, "CREATE USER x IDENTIFIED BY '{}';"), (_P, "--pass={} --verbose"),
    (_P, "login: admin / {}"), (_P, "Pass: {}"), (_P, "password -> {}"), (_P, "合言葉は{}です"),
    (_K, "api-key: {}"), (_K, "OPENAI_API_KEY={}"), (_K, "private_token={}"), (_K, "access_key = '{}'"), (_K, "apikey={}"),
    (_K, "\"client_secret\":\"{}\""), (_K, "X-Auth-Token: {}"), (_K, "webhook_secret: \"{}\""), (_K, "DATADOG_APP_KEY={}"),
    (_K, "token = \"{}\"  # expires soon"), (_K, "Use the API key {} for this call"), (_K, "My access token is {}"),
    (_K, "シークレットは{}です"), (_K, "APIキー：{}"), (_K, "トークンは以下です：\n{}"), (_K, "SharedAccessKeyName=x;SharedAccessKey={}"),
    (_K, "Set-Cookie: auth={}; Secure"), (_K, "cookie: sid={}"), (_K, "SESSION_SECRET={}"), (_K, "refresh_token: {}"),
    (_K, "os.environ[\"API_TOKEN\"] = \"{}\""), (_K, "git config http.extraheader \"PRIVATE-TOKEN: {}\""), (_K, "--api-key {}"),
    (_K, "apiToken: '{}',"), (_K, "the bot token is `{}`"), (_K, "?access_token={}"), (_K, "//npm.example.org/:_authToken={}"),
    (_K, "<add key=\"ApiKey\" value=\"{}\" />"), (_K, "認証トークン: {}"),
    (Maker.jwt, "token: {}"), (Maker.jwt, "localStorage.setItem('jwt', '{}')"), (Maker.base64, "data: {}"),
    (Maker.base64, "secret.yaml has `{}`"), (Maker.pem, "KEY='{}'"), (Maker.pin, "PINは{}です"), (Maker.pin, "The PIN is {}"),
)  # fmt: skip


def messages(half: str, seed: int) -> Iterator[tuple[str, str]]:
    """A text and the value in it that must go."""
    maker = Maker(seed)
    for make, template in _KNOWN if half == "known" else _UNSEEN:
        value = make(maker)
        yield template.format(value), value


_TOLD: tuple[str, ...] = (
    "$ cat .env\nAPP_ENV=production\nDB_HOST=10.0.4.12\nDB_PASSWORD=⟦p14⟧\nREDIS_URL=redis://:⟦a22⟧@cache.internal:6379/0\nSENTRY_DSN=https://⟦h32⟧@o44120.ingest.sentry.io/55812",
    "  501  cd ~/work/billing\n  502  export STRIPE_SECRET=⟦stripe⟧\n  503  mysql -h db1 -u root -p⟦p12⟧ billing\n  504  git status",
    "I ran this to reproduce:\ncurl -s -X POST https://api.acme.dev/v2/orders -H 'Authorization: Bearer ⟦a40⟧' -d '{\"sku\": \"A-12\"}'\nand got a 502 after 30 s.",
    "curl -u deploy:⟦p13⟧ https://nexus.acme.dev/repository/maven-releases/com/acme/core/1.4.2/core-1.4.2.jar -O",
    "hey, the staging admin password is ⟦p11⟧, please change it after you're done",
    "Sure — login is qa-bot and the pw: ⟦p12⟧. Don't put it in the ticket.",
    "database:\n  host: pg.internal\n  port: 5432\n  user: reporting\n  password: \"⟦p16⟧\"\nlogging:\n  level: info",
    "apiVersion: v1\nkind: Secret\nmetadata:\n  name: billing-db\ntype: Opaque\ndata:\n  username: YmlsbGluZw==\n  password: ⟦b18⟧",
    "kind: Secret\nstringData:\n  SMTP_PASS: ⟦a18⟧\n  webhook-signing-key: ⟦h40⟧",
    "resource \"aws_db_instance\" \"main\" {\n  identifier        = \"prod-main\"\n  username          = \"dbadmin\"\n  password          = \"⟦p18⟧\"\n  allocated_storage = 100\n}",
    "region = \"eu-west-1\"\ndatadog_api_key = \"⟦h32⟧\"\ndatadog_app_key = \"⟦h40⟧\"\ninstance_count = 3",
    "services:\n  db:\n    image: postgres:16\n    environment:\n      - POSTGRES_USER=app\n      - POSTGRES_PASSWORD=⟦a16⟧\n  minio:\n    image: minio/minio\n    environment:\n      MINIO_ROOT_USER: minio\n      MINIO_ROOT_PASSWORD: ⟦p15⟧",
    "Traceback (most recent call last):\n  File \"/app/db.py\", line 41, in connect\n    conn = psycopg.connect(\"postgresql://svc_orders:⟦a20⟧@orders-db.prod:5432/orders?sslmode=require\")\npsycopg.OperationalError: connection to server at \"orders-db.prod\" failed: timeout expired",
    "java.sql.SQLException: Access denied for user 'etl'@'10.2.0.9' (using password: YES)\n  url=jdbc:mysql://10.2.0.4:3306/dw?user=etl&password=⟦a14⟧&useSSL=false\n\tat com.mysql.cj.jdbc.exceptions.SQLError.createSQLException(SQLError.java:129)",
    "Found in appsettings.json: \"Server=tcp:acme.database.windows.net,1433;Database=crm;User ID=crmadmin;Password=⟦p17⟧;Encrypt=True;\"",
    "DefaultEndpointsProtocol=https;AccountName=acmelogs;AccountKey=⟦B88⟧;EndpointSuffix=core.windows.net",
    "> GET /account HTTP/1.1\n> Host: shop.acme.dev\n> Cookie: theme=dark; sessionid=⟦a32⟧; csrftoken=⟦a32⟧\n< HTTP/1.1 200 OK",
    "< set-cookie: connect.sid=s%3A⟦a76⟧; Path=/; HttpOnly; SameSite=Lax",
    "DEBUG http.client send: GET /rest/api/2/issue/OPS-81 HTTP/1.1\\r\\nAuthorization: Basic ⟦basic⟧\\r\\nAccept: */*",
    "{\"access_token\": \"⟦jwt⟧\", \"expires_in\": 3600, \"token_type\": \"Bearer\", \"refresh_token\": \"⟦a48⟧\"}",
    "I found this file in the image layer:\n⟦pem⟧\nShould it be there?",
    "echo ⟦b64env⟧ | base64 -d > .env.production",
    "CREATE USER reporting WITH LOGIN PASSWORD '⟦p14⟧';\nGRANT SELECT ON ALL TABLES IN SCHEMA public TO reporting;",
    "mysql> ALTER USER 'wp'@'localhost' IDENTIFIED BY '⟦p13⟧';\nQuery OK, 0 rows affected (0.01 sec)",
    "INSERT INTO integrations (name, api_key, enabled) VALUES ('openai', '⟦openai project⟧', true);",
    "$ git remote -v\norigin\thttps://ci-bot:⟦github⟧@github.com/acme/billing.git (fetch)\norigin\thttps://ci-bot:⟦github⟧@github.com/acme/billing.git (push)",
    "//npm.example.org/:_authToken=⟦npm⟧\n//npm.acme.dev/:_password=\"⟦b18⟧\"\nalways-auth=true",
    "{\"auths\": {\"registry.acme.dev\": {\"auth\": \"⟦basic⟧\", \"email\": \"ci@acme.dev\"}}}",
    "[default]\naws_access_key_id = ⟦aws⟧\naws_secret_access_key = ⟦B40⟧\nregion = us-east-1",
    "OPS-2231  VPN for new contractor\nReporter: M. Lindqvist\nUser name mlindq, initial password ⟦p10⟧ (must be changed at first login). PSK for the site tunnel: ⟦a24⟧",
    "Subject: Access to the SFTP drop\nHi Dana,\nas discussed, here are your credentials:\n  host: sftp.partner.example\n  user: acme_drop\n  pass: ⟦p12⟧\nBest, Jo",
    "Posting to the channel with SLACK_BOT_TOKEN=⟦slack bot⟧ and webhook https://hooks.slack.com/services/T0Q2W4E6R/B1S3D5F7G/⟦a24⟧ works now.",
    "client = boto3.client(\"s3\",\n    aws_access_key_id=\"⟦aws⟧\",\n    aws_secret_access_key=\"⟦B40⟧\")",
    "const config = {\n  apiKey: '⟦google⟧',\n  authDomain: 'acme-app.firebaseapp.com',\n  clientSecret: '⟦a28⟧',\n};",
    "- name: add api user\n  uri:\n    url: https://mon.acme.dev/api/users\n    url_username: admin\n    url_password: ⟦p12⟧\n    method: POST",
    "2024-11-02T09:14:55Z INFO oauth exchange ok client_id=web-ui client_secret=⟦a32⟧ scope=openid",
    "Download: https://acme-exports.s3.amazonaws.com/2024/11/report.csv?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Expires=3600&X-Amz-Signature=⟦h64⟧",
    "The root passphrase for the backup volume is \"⟦w4⟧\" and it is stored nowhere else.",
    "We rotated the token from ⟦a26⟧ to ⟦a26⟧ last night; the old token should fail now.",
    "{\"tool\": \"shell\", \"arguments\": {\"command\": \"PGPASSWORD=⟦a15⟧ pg_dump -h db -U app app > /tmp/app.sql && sshpass -p '⟦p11⟧' scp /tmp/app.sql backup@vault:\"}}",
    "ステージング環境の管理者パスワードは「⟦p12⟧」です。作業後に変更をお願いします。",
    "DBのパスワードは ⟦p13⟧ に変更しました。旧パスワードは使えません。",
    "お疲れさまです。SFTPの接続情報をお送りします。\nホスト: sftp.partner.example\nユーザー名: acme_drop\nパスワード: ⟦p12⟧\nよろしくお願いいたします。",
    "VPNの事前共有鍵：⟦a24⟧（外部には共有しないでください）",
    "APIキーは ⟦a32⟧ を使ってください。レート制限は毎分60回です。",
    "チケット OPS-881: 新人のアカウント作成\nID: tanaka.y\n初期パスワード: ⟦p11⟧\n備考: 初回ログイン時に変更すること",
    "暗証番号は⟦d4⟧です。金庫は3階にあります。",
    "# 本番用の設定（コミット禁止）\nDATABASE_URL=postgres://app:⟦a20⟧@db.internal:5432/app\nSECRET_KEY_BASE=⟦h64⟧",
    "このトークン ⟦gitlab⟧ で GitLab にプッシュできるはずです。",
    "curl で試しました: curl -H \"X-API-Key: ⟦a36⟧\" https://api.acme.jp/v1/users → 403 が返ります。",
    "ログにそのまま出ていました:\n2024-11-02 09:14:55 [WARN] 認証失敗 user=sato password=⟦p11⟧ ip=192.168.3.4",
    "合言葉は「⟦w3⟧」、有効期限は今月末までです。",
    "docker-compose.yml を直しました。\n  environment:\n    MYSQL_ROOT_PASSWORD: ⟦p14⟧\n    MYSQL_DATABASE: shop\n    TZ: Asia/Tokyo",
    "Slackの通知先は https://hooks.slack.com/services/T0Q2W4E6R/B1S3D5F7G/⟦a24⟧ です。テスト投稿は成功しました。",
    "Kubernetes の Secret を確認した結果です。\ndata:\n  db-password: ⟦b18⟧\n  tls.crt: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t",
    "接続文字列は Server=db01;Database=販売;User Id=sa;Password=⟦p14⟧; でした。",
    "秘密鍵がリポジトリに入っていました：\n⟦pem⟧\n至急、無効化してください。",
    "Wi-Fiのパスワードは⟦a12⟧です（会議室のみ）。",
    "管理画面のログイン情報 → ID: admin / PW: ⟦p12⟧",
    "AWSのアクセスキーID ⟦aws⟧、シークレットアクセスキー ⟦B40⟧ で設定しました。",
    "セッションCookieが漏れています。Cookie: JSESSIONID=⟦X32⟧; lang=ja",
    "エラーの内容:\npymysql.err.OperationalError: (2003, \"Can't connect to MySQL server\")\n接続先: mysql+pymysql://batch:⟦a16⟧@10.1.2.3/sales?charset=utf8mb4",
    "トークンを ⟦a30⟧ に更新したところ、401 が解消しました。",
    "Basic認証のユーザーは demo、パスワードは ⟦p9⟧ になります。",
    "ヘッダーは Authorization: Basic ⟦basic⟧ を付けて呼び出しています。",
    "アクセストークン：⟦jwt⟧\n有効期限：1時間",
    "{\"ユーザー\": \"suzuki\", \"パスワード\": \"⟦p12⟧\", \"権限\": \"管理者\"}",
    "OpenAIの鍵 ⟦openai project⟧ を .env に入れておきました。",
    "terraform.tfvars の中身:\ndb_master_password = \"⟦p16⟧\"\nvpc_cidr = \"10.0.0.0/16\"",
    "「パスワードを教えて」と聞かれたので ⟦p12⟧ と答えました。",
    "sudo のパスワード（⟦p10⟧）を入力して続行しました。",
    "履歴:\n  12  ssh-keygen -t ed25519 -N '⟦p13⟧' -f ~/.ssh/deploy\n  13  mysql -uroot -p'⟦p12⟧' < dump.sql",
    "ZIPの解凍パスワードは別メールで送ります。→ 解凍パスワード：⟦a10⟧",
    "CREATE ROLE 集計 LOGIN PASSWORD '⟦p13⟧'; を実行済みです。",
    "メールサーバーの設定: smtp_user=noreply@acme.jp smtp_password=⟦a16⟧ smtp_port=587",
    "LINEのチャネルシークレットは ⟦h32⟧、チャネルアクセストークンは ⟦B120⟧ です。",
    "base64で貼ります: ⟦b64env⟧ デコードして使ってください。",
    "ワンタイムコードは ⟦d6⟧ でした。5分以内に入力してください。",
    "リカバリーコードを控えてください： ⟦code⟧",
    "application.yml:\nspring:\n  datasource:\n    username: app\n    password: ⟦p15⟧\n  mail:\n    password: ⟦a16⟧",
)  # fmt: skip

_LOOK_ALIKES: tuple[str, ...] = (
    "commit ⟦h40⟧\nAuthor: Dana <dana@acme.dev>\n\n    Fix rounding in invoices",
    "sha256:⟦h64⟧  docker.io/library/postgres:16",
    "request_id=⟦uuid⟧ status=200 duration=12ms",
    "The password must have at least 12 characters and one digit.",
    "Please enter your password to continue.",
    "I forgot my password, how can I reset it?",
    "password = getpass.getpass('Password: ')",
    "def check_password(user: User, password: str) -> bool:",
    "token = os.environ['GITHUB_TOKEN']",
    "if not token: raise ValueError('token is missing')",
    "The token is expired; ask the user to sign in again.",
    "pip install requests==2.31.0 --hash=sha256:⟦h64⟧",
    "\"integrity\": \"sha512-⟦B86⟧==\"",
    "index ⟦h7⟧..⟦h7⟧ 100644",
    "ETag: \"⟦h32⟧\"",
    "trace_id=⟦h32⟧ span_id=⟦h16⟧",
    "arn:aws:iam::123456789012:role/deploy-role",
    "https://github.com/acme/billing/pull/4121/files#diff-⟦h64⟧",
    "max_tokens: 4096, temperature: 0.2, top_p: 1",
    "prompt_tokens=1523 completion_tokens=88 total_tokens=1611",
    "password: ${DB_PASSWORD}",
    "password: {{ vault_db_password }}",
    "secretKeyRef:\n  name: billing-db\n  key: password",
    "Author-Date: 2024-11-02T09:14:55+09:00 build 20241102.3",
    "https://user@example.org/path is an address without a password",
    "PASSWORD=<your password here>",
    "api_key: YOUR_API_KEY",
    "The secret of good tests is that they can fail.",
    "パスワードは8文字以上で入力してください。",
    "パスワードを忘れた場合は管理者に連絡してください。",
    "トークンは有効期限が切れています。再度ログインしてください。",
    "暗証番号は4桁の数字です。",
    "パスワードは環境変数から読み込みます。",
    "APIキーは管理画面から発行できます。",
    "秘密鍵は ~/.ssh/id_ed25519 に置いてください。",
    "パスワード: ********",
    "コミット ⟦h40⟧ で修正しました。",
    "テスト test_password_is_masked が失敗しました (3件中1件)",
    "-----BEGIN CERTIFICATE-----\n⟦B64⟧\n⟦B64⟧\n-----END CERTIFICATE-----",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI⟦B43⟧ dana@laptop",
)  # fmt: skip

_BLANK = re.compile("⟦([^⟧]+)⟧")


def told(seed: int) -> Iterator[tuple[str, list[str]]]:
    """Whole messages, and all the values in each that must go."""
    return _filled((*_TOLD, *TRANSCRIPTS), seed)


def mended(seed: int) -> Iterator[tuple[str, list[str]]]:
    """Forms that stayed before there was a rule for them."""
    return _filled(MENDED, seed)


def _filled(templates: tuple[str, ...], seed: int) -> Iterator[tuple[str, list[str]]]:
    maker = Maker(seed)
    for template in templates:
        values = [maker.blank(name) for name in _BLANK.findall(template)]
        left = iter(values)
        yield _BLANK.sub(lambda _, left=left: next(left), template), values  # type: ignore[misc]


def look_alikes(seed: int) -> Iterator[str]:
    """Texts that have nothing secret, though it looks so."""
    maker = Maker(seed)
    for template in (*_LOOK_ALIKES, *HARD_LOOK_ALIKES):
        yield _BLANK.sub(lambda blank: maker.blank(blank[1]), template)
