"""All settings, from the environment in this one place. The defaults serve the demo: no server, no secret."""

from pathlib import Path

from django.core.exceptions import ImproperlyConfigured
from kombu import Exchange, Queue

from project import database, env, production
from tasks.registry import broker_queue

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env.text("DATA_DIR", str(BASE_DIR / "var")))

# -- which site ----------------------------------------------------------------------------------
ENVIRONMENT = env.choice("ENVIRONMENT", "demo", ("demo", "production"))
IS_DEMO = ENVIRONMENT == "demo"
DEBUG = env.boolean("DEBUG", False)
SECRET_KEY = env.text("SECRET_KEY") or (env.kept_secret(DATA_DIR / "demo-secret-key") if IS_DEMO else "")
SECRET_KEY_FALLBACKS = env.words("SECRET_KEY_FALLBACKS")  # keys of before: what they have signed is still believed
RELEASE = env.text("RELEASE", "unknown")
ALLOWED_HOSTS = env.words("ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]" if IS_DEMO else "")
SITE_URL = env.origin("SITE_URL", "http://127.0.0.1:8000" if IS_DEMO else "")
CSRF_TRUSTED_ORIGINS = [SITE_URL]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_celery_beat",
    "tasks",
    "project.accounts",
    "project.signup",
    "project.billing",
    "project.ops",
    *(["project.demo"] if IS_DEMO else []),
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "project.content_policy.ContentPolicyMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "project.unavailable.DatabaseAwayMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
STATIC_URL = "static/"
STATIC_ROOT = Path(env.text("STATIC_ROOT", str(DATA_DIR / "static")))
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
if IS_DEMO:
    env.make_folder("STATIC_ROOT", STATIC_ROOT)  # whitenoise warns about a missing one
    WHITENOISE_USE_FINDERS = True  # the demo serves static files without a collectstatic step
    STORAGES["staticfiles"]["BACKEND"] = "django.contrib.staticfiles.storage.StaticFilesStorage"
MEDIA_ROOT = Path(env.text("MEDIA_ROOT", str(DATA_DIR / "media")))
USE_TZ = True
TIME_ZONE = env.time_zone("TIME_ZONE", "UTC")
LANGUAGE_CODE = "en"

# -- accounts ------------------------------------------------------------------------------------
AUTH_USER_MODEL = "accounts.User"
FILES_OF_A_USER = ("welcome/{id}.pdf", "welcome/.{id}.*")  # below MEDIA_ROOT; removed when the user is deleted
PASSWORD_HASHERS = [
    "project.accounts.hashers.SmallArgon2PasswordHasher",
    "django.contrib.auth.hashers.ScryptPasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator",
        "OPTIONS": {"user_attributes": ("email", "name")},
    },
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

# -- database ------------------------------------------------------------------------------------
DATABASES = {
    "default": database.from_url(
        env.url("DATABASE_URL", "", database.SCHEMES),
        default_file=DATA_DIR / "db.sqlite3",
        statement_timeout_s=env.integer("DB_STATEMENT_TIMEOUT_S", 0, low=0, high=86_400),
        lock_timeout_s=env.integer("DB_LOCK_TIMEOUT_S", 10, low=1, high=3_600),
    )
}

# -- mail ----------------------------------------------------------------------------------------
DEFAULT_FROM_EMAIL = env.text("DEFAULT_FROM_EMAIL", "Kit <kit@example.com>")
EMAIL_HOST = env.text("EMAIL_HOST", "" if IS_DEMO else "localhost")
EMAIL_PORT = env.integer("EMAIL_PORT", 25, low=1, high=65535)
EMAIL_HOST_USER = env.text("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD = env.text("EMAIL_HOST_PASSWORD")
EMAIL_USE_TLS = env.boolean("EMAIL_USE_TLS", False)
EMAIL_TIMEOUT = 10  # seconds; without it a silent server holds a worker for ever (cases O-62)
EMAIL_FILE_PATH = DATA_DIR / "mail"
if not EMAIL_HOST:  # the demo without an SMTP server: mail goes to files, and a page shows them
    EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"

# -- other people's APIs ---------------------------------------------------------------------------
TEAM_WEBHOOK_URL = env.url("TEAM_WEBHOOK_URL", "", ("https", "http"))  # empty: the team is told nothing
PAYMENT_URL = env.url("PAYMENT_URL", "", ("https", "http"))  # empty: nothing can be charged
PAYMENT_KEY = env.text("PAYMENT_KEY")
PAYMENT_UNSURE_S = env.integer("PAYMENT_UNSURE_S", 120, low=1, high=86_400)  # a charge may be under way, unseen

# -- jobs ----------------------------------------------------------------------------------------
JOBS_QUEUES = ("default", "mail", "ops", "pdf", "webhook")
JOBS_HIGH_WATER = env.integer("JOBS_HIGH_WATER", 32, low=1, high=10_000)  # jobs per queue in the broker
JOBS_POLL_S = env.integer("JOBS_POLL_S", 1, low=1, high=60)  # longest wait for due rows when nothing wakes the relay
JOBS_LOST_GRACE_S = env.integer("JOBS_LOST_GRACE_S", 15, low=1, high=3600)  # doubles each time a job is relayed anew
JOBS_DRAIN_S = env.integer("JOBS_DRAIN_S", 600, low=1, high=86_400)  # a stopping worker gives back what takes longer
JOBS_DRAIN_ON_BROKER_LOSS_S = env.integer("JOBS_DRAIN_ON_BROKER_LOSS_S", 10, low=1, high=86_400)  # it takes no new work
JOBS_UNKNOWN_GIVE_UP_S = 900  # a job that no worker knows how to run is dead after this
JOBS_KEEP_SUCCEEDED_S = env.integer("JOBS_KEEP_SUCCEEDED_S", 86_400, low=60, high=10 * 366 * 86_400)
JOBS_KEEP_DEAD_S = env.integer("JOBS_KEEP_DEAD_S", 30 * 86_400, low=60, high=10 * 366 * 86_400)

# -- Celery --------------------------------------------------------------------------------------
CELERY_BROKER_URL = env.url("CELERY_BROKER_URL", "filesystem://", ("filesystem", "redis", "rediss", "amqp", "amqps"))
CELERY_TASK_DEFAULT_QUEUE = broker_queue("default")
CELERY_TASK_QUEUES = [
    Queue(broker_queue(name), Exchange(broker_queue(name)), broker_queue(name)) for name in JOBS_QUEUES
]
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]  # never pickle: who may write to the broker could run code
CELERY_RESULT_BACKEND = None  # the job row is the result
CELERY_RESULT_EXPIRES = None  # no result backend, so no schedule that cleans it
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = False  # rows decide what runs again, not messages
CELERY_TASK_SOFT_TIME_LIMIT = 540
CELERY_TASK_TIME_LIMIT = 600
CELERY_WORKER_PREFETCH_MULTIPLIER = 1  # a waiting job belongs to whoever is free, not to who is busy
CELERY_WORKER_LOST_WAIT = 1.0  # s; without an event loop a child's death would be told after 10
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False  # 1.8 ms of CPU a message; Flower turns them on while it runs
CELERY_BROKER_CONNECTION_RETRY = False  # a worker that lost its broker ends; one that reconnects may stay deaf
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_CONSUMER = "tasks.consumer:JobConsumer"
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # wait for the broker as long as it takes
CELERY_BEAT_SCHEDULER = "tasks.beat:Scheduler"
CELERY_TIMEZONE = TIME_ZONE
if CELERY_BROKER_URL.startswith("filesystem:"):
    BROKER_DIR = Path(env.text("BROKER_DIR", str(DATA_DIR / "broker")))
    for folder in ("messages", "control"):
        env.make_folder("BROKER_DIR", BROKER_DIR / folder)
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(BROKER_DIR / "messages"),
        "data_folder_out": str(BROKER_DIR / "messages"),
        "control_folder": str(BROKER_DIR / "control"),
        "polling_interval": 0.1,
    }
elif CELERY_BROKER_URL.startswith("redis"):
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "socket_timeout": 4,  # s; None would block a publisher for as long as Redis is frozen
        "socket_connect_timeout": 2,
        "socket_keepalive": True,
        "health_check_interval": 3,  # s; a half-open connection is given up after 4 to 7 (kombu's default: 26 to 51)
        "priority_steps": list(range(10)),  # one list per priority; the default of four would mix 7, 8 and 9
        "visibility_timeout": 3600,  # above every hard time limit; rows do not depend on it
        "ack_emulation": env.boolean("BROKER_ACKS", True),
    }

# -- logs ----------------------------------------------------------------------------------------
LOG_LEVEL = env.choice("LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR"))
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "filters": {"hide_tokens": {"()": "project.logs.HideTokens"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        # The executor logs one line at a job's start and one at its end; Celery would add two more.
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
        "fontTools": {"level": "WARNING"},  # it tells each table of a font
        "kombu.connection": {"level": "ERROR"},  # it warns that filesystem:// names no host
        "httpx": {"level": "WARNING"},  # it logs each address, and a webhook's address is a secret
        "django.request": {"filters": ["hide_tokens"]},
        "django.security.csrf": {"filters": ["hide_tokens"]},
    },
}

# -- production ----------------------------------------------------------------------------------
if IS_DEMO:
    refused = production.demo_refusals(globals())
else:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = [r"^healthz$"]  # asked on this host, over the socket
    SECURE_HSTS_SECONDS = env.integer("HSTS_SECONDS", 63_072_000, low=0, high=10 * 366 * 86_400)
    SECURE_HSTS_INCLUDE_SUBDOMAINS = env.boolean("HSTS_INCLUDE_SUBDOMAINS", False)
    SECURE_HSTS_PRELOAD = env.boolean("HSTS_PRELOAD", False)
    # `check --deploy` asks for both. They bind hosts that are not this site's, so they are the operator's choice.
    SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
    SECURE_REFERRER_POLICY = "same-origin"
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
    SESSION_COOKIE_NAME = "__Host-sessionid"
    CSRF_COOKIE_NAME = "__Host-csrftoken"
    X_FRAME_OPTIONS = "DENY"
    mounts = Path("/proc/mounts")
    refused = production.refusals(globals(), mounts.read_text() if mounts.exists() else "")
if refused:
    raise ImproperlyConfigured(f"ENVIRONMENT={ENVIRONMENT} does not start:\n- " + "\n- ".join(refused))
