"""Consuming: the push consumer, rebalance, pulling, listeners and offsets.

From the top down; a file imports only what stands in lines below its own:

    push_consumer                                   what applications use
    consume_pipeline                                the parts, as an instance sees them
    pulling, broker_requests
    rebalance, consume_concurrently, consume_orderly
    queue_ownership, send_back
    member                                          the state that all parts share
    offsets, listeners
    group_calls, process_queue, allocation, worker_pool
    push_config                                     the settings
"""
