"""Consuming: three consumers, rebalance, pulling, listeners and offsets.

The folders are ``group`` (shared by all consumers), ``push`` and ``pull``.  From the top down; a
file imports only from lines below its own:

    push_consumer, pull_consumer, lite_pull_consumer    the classes that applications use
    consume_pipeline, lite_pull_pipeline                the parts of a consumer, connected
    active_membership                                   pull consumers on an instance
    group_consumer                                      start and end of every consumer
    group_membership, pulling, pull_tasks, broker_requests
    consume_concurrently, consume_orderly
    rebalance, send_back, pull_kernel
    member                                              the state that all parts share
    message_loop
    offsets, listeners
    group_calls, process_queue, allocation, worker_pool
"""
