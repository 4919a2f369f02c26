# Perfloom's web half; the worker runs from the same image: docker run … perfloom worker.
#
# Both want the same data volume, and an external broker and database; secrets come from files:
#   PERFLOOM_BROKER_URL=redis://redis:6379/0
#   PERFLOOM_DATABASE_URL_FILE=/run/secrets/database-url     postgresql://perfloom:…@db/perfloom
#   PERFLOOM_TOKEN_FILE=/run/secrets/token                   web alone: at least 32 letters and digits
#   PERFLOOM_SECRET_KEY_FILE=/run/secrets/secret-key         web alone
#   PERFLOOM_TRUSTED_HOSTS=perfloom.example.org              the name under which browsers ask for it
# The worker records on targets over SSH; jobs in its own container are refused: see docs/how-to/deploy.md.
FROM python:3.11-slim-bookworm AS build
WORKDIR /src
COPY setup.cfg pyproject.toml README.md ./
COPY app app
COPY workers workers
COPY templates templates
COPY static static
COPY perfloom perfloom
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim-bookworm
RUN apt-get update \
    && apt-get install -y --no-install-recommends linux-perf \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
RUN wheel="$(echo /wheels/perfloom-*.whl)" \
    && pip install --no-cache-dir "perfloom[postgres] @ file://$wheel" \
    && rm -rf /wheels
RUN useradd --system --create-home --home-dir /var/lib/perfloom --shell /usr/sbin/nologin --uid 10001 perfloom \
    && install -d -o perfloom -g perfloom -m 0700 /var/lib/perfloom/data
USER perfloom
WORKDIR /var/lib/perfloom
# Compiled for the CPU of this build. On another kind of CPU, the worker compiles in the background.
RUN python -m perfloom.readers.warmup
ENV PERFLOOM_DATA=/var/lib/perfloom/data \
    PYTHONUNBUFFERED=1
VOLUME /var/lib/perfloom/data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD ["perfloom", "web", "--host", "0.0.0.0", "--port", "8000"]
