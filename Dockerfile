# Tandem in a container, as an unprivileged user. See docs/start/install.md.
#
#   docker build -t tandem .
#   docker run --rm --network host -v tandem:/var/lib/tandem tandem
#
# --build-arg EXTRAS=litellm adds litellm; without it the image has what several routers need.
#
# It listens on loopback only: callers need no key, so anyone who reached it could spend yours. So it shares the host's
# network (--network host) instead of publishing a port, and is reached at 127.0.0.1 as without a container.
# Official Python images are built with profile guidance (--enable-optimizations), which takes 6 to 12 % less CPU.
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
ARG EXTRAS=shared
WORKDIR /src
RUN python -m venv --without-pip /opt/tandem
COPY requirements/shared.txt requirements/litellm.txt requirements/
RUN python -m pip --python /opt/tandem/bin/python install --no-cache-dir --require-hashes -r "requirements/${EXTRAS}.txt"
COPY pyproject.toml README.md LICENSE ./
COPY adapters adapters
COPY policies policies
COPY router router
COPY docs/deploy/user docs/deploy/user
RUN python -m pip --python /opt/tandem/bin/python install --no-cache-dir --no-deps --no-build-isolation .

FROM python:${PYTHON}-slim
COPY --from=build /opt/tandem /opt/tandem
RUN useradd --system --uid 10001 --home-dir /var/lib/tandem --create-home --shell /usr/sbin/nologin tandem
# The config is looked for in this folder, and the ledger is next to the config. Without a config it is here all the same.
WORKDIR /var/lib/tandem
ENV PATH=/opt/tandem/bin:$PATH XDG_STATE_HOME=/var/lib PYTHONDONTWRITEBYTECODE=1 TANDEM_IMAGE=1
VOLUME /var/lib/tandem
USER 10001
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
  CMD ["python", "-c", "import http.client as h; c = h.HTTPConnection('127.0.0.1', 4000, timeout=3); c.request('GET', '/healthz'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["tandem"]
CMD ["serve", "--log", "json"]
