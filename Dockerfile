# The emulator as an image.  Without a command it is a whole cluster in one container:
#
#   docker run -p 9876:9876 -p 10911:10911 -p 11011:11011 rocketmq-emulator
#
# Brokers tell clients 127.0.0.1, where these ports are published; with ports that the engine chooses,
# `rmqemu advertise` tells brokers which.  Nodes are killed and started again by
# docker exec CONTAINER rmqemu kill broker-b, or through port 9875 (docs/control.md).
FROM python:3.11-slim

WORKDIR /app
COPY . .
RUN pip install --no-cache-dir -c constraints.txt . \
    && useradd --create-home rocketmq \
    && mkdir /store && chown rocketmq /store
USER rocketmq

EXPOSE 9875 9876 10911 11011
HEALTHCHECK --interval=10s --timeout=10s --start-period=20s --start-interval=1s \
    CMD ["rmqemu", "nodes", "-n", "127.0.0.1:9876"]
ENTRYPOINT ["rmqemu"]
# The image is for tests: all that a test may do to a cluster is allowed.
CMD ["up", "--listen", "0.0.0.0", "--advertise", "127.0.0.1", "--control", "0.0.0.0:9875", \
     "--set", "reply_rules_allowed=true"]
