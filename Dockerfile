# The emulator as an image.  Without a command it is a whole cluster in one container:
#
#   docker run -p 9876:9876 -p 10911:10911 -p 11011:11011 rocketmq-emulator
#
# Brokers tell clients 127.0.0.1, where these ports are published.  Nodes are killed and started
# again by docker exec CONTAINER rmqemu kill broker-b.
FROM python:3.11-slim

WORKDIR /app
COPY . .
RUN pip install --no-cache-dir -c constraints.txt . \
    && useradd --create-home rocketmq \
    && mkdir /store && chown rocketmq /store
USER rocketmq

EXPOSE 9876 10911 11011
HEALTHCHECK --interval=10s --timeout=10s --start-period=20s --start-interval=1s \
    CMD ["rmqemu", "status", "-n", "127.0.0.1:9876"]
ENTRYPOINT ["rmqemu"]
CMD ["up", "--listen", "0.0.0.0", "--advertise", "127.0.0.1"]
