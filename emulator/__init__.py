"""A RocketMQ that starts in half a second and can be hurt on purpose."""
