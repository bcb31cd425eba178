# The emulator as an image: the command line, nothing else.
FROM python:3.11-slim

WORKDIR /app
COPY pyproject.toml hatch_build.py constraints.txt README.md LICENSE ./
COPY protocol protocol
COPY emulator emulator
COPY rocketmq_emulator rocketmq_emulator
RUN pip install --no-cache-dir -c constraints.txt . \
    && useradd --create-home rocketmq \
    && mkdir /store && chown rocketmq /store
USER rocketmq

ENTRYPOINT ["rmqemu"]
CMD ["--help"]
