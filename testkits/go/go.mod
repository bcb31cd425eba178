module rocketmq-emulator/testkit

go 1.21
