# One image for every process of a farm: the command says which (`farm server`, `farm agent --host NAME`).
# Not built where this project is developed (no Docker there): docs/operating.md says what is tested instead.
FROM python:3.12-bookworm

WORKDIR /opt/farm
COPY . .
# The same set-up as on any machine: system packages, the locked environment, the browser libraries, hashes checked.
RUN python3 tools/setup.py && rm -rf .cache /var/lib/apt/lists/*

ENV PATH=/opt/farm/.venv/bin:$PATH FARM_STATE=/var/lib/farm
VOLUME /var/lib/farm
CMD ["farm", "server", "--host", "0.0.0.0"]
