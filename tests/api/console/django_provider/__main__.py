"""Django OAuth Toolkit as a provider: python -m tests.api.console.django_provider FOLDER REDIRECT_URI SIGNED_OUT_URI

It prints its port when it answers.
"""

import sys
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, make_server

import django
from django.conf import settings
from django.core.management import call_command
from joserfc.jwk import RSAKey

from tests.api.console.django_provider.person import CLIENT_ID, CLIENT_SECRET, PASSWORD, PERSON

FOLDER, REDIRECT_URI, SIGNED_OUT_URI = sys.argv[1:]
LOGIN_FORM = "<form method=post>{% csrf_token %}{{ form }}<button>Log in</button></form>"


class QuietHandler(WSGIRequestHandler):
    """Prints no line for each request: nobody reads them."""

    def log_message(self, *_: object) -> None:
        return


def serve() -> None:
    server = make_server("127.0.0.1", 0, lambda *_: [], handler_class=QuietHandler)
    settings.configure(
        SECRET_KEY="for tests alone",
        ALLOWED_HOSTS=["127.0.0.1"],
        ROOT_URLCONF="tests.api.console.django_provider.pages",
        INSTALLED_APPS=[
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
            "oauth2_provider",
        ],
        MIDDLEWARE=[
            "django.contrib.sessions.middleware.SessionMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
        ],
        TEMPLATES=[
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "OPTIONS": {"loaders": [("django.template.loaders.locmem.Loader", {"login.html": LOGIN_FORM})]},
            }
        ],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": Path(FOLDER) / "provider.db"}},
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        LOGIN_URL="/login",
        SESSION_COOKIE_NAME="provider-session",
        CSRF_COOKIE_NAME="provider-csrf",
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        USE_TZ=True,
        # Its tables at once instead of through the history of its migrations, which takes many seconds.
        MIGRATION_MODULES=dict.fromkeys(("auth", "contenttypes", "sessions", "oauth2_provider")),
        OAUTH2_PROVIDER={
            "OIDC_ENABLED": True,
            "OIDC_RSA_PRIVATE_KEY": RSAKey.generate_key(2048).as_pem(private=True).decode(),
            "OIDC_RP_INITIATED_LOGOUT_ENABLED": True,
            "OIDC_RP_INITIATED_LOGOUT_ALWAYS_PROMPT": False,
            "OAUTH2_VALIDATOR_CLASS": "tests.api.console.django_provider.claims.GroupClaims",
            "SCOPES": {"openid": "Who you are", "profile": "Your name"},
        },
    )
    django.setup()
    from django.contrib.auth.models import User
    from django.core.wsgi import get_wsgi_application
    from oauth2_provider.models import Application

    call_command("migrate", run_syncdb=True, verbosity=0)
    User.objects.create_user(PERSON, password=PASSWORD, first_name="Ada", last_name="Officer")
    Application.objects.create(
        client_id=CLIENT_ID,
        client_secret=CLIENT_SECRET,
        client_type="confidential",
        authorization_grant_type="authorization-code",
        redirect_uris=REDIRECT_URI,
        post_logout_redirect_uris=SIGNED_OUT_URI,
        skip_authorization=True,
        algorithm="RS256",
    )
    server.set_app(get_wsgi_application())
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


serve()
