"""Consuming: three consumers, rebalance, pulling, listeners and offsets.

From the top down; a file imports only what stands in lines below its own:

    push_consumer, pull_consumer, lite_pull_consumer    what applications use
    group_consumer, group_membership                    the life that all kinds share
    consume_pipeline, lite_pulling                      the parts, put together
    active_membership                                   pull consumers, as an instance sees them
    pulling, pull_tasks, broker_requests, topic_queue_watch
    rebalance, consume_concurrently, consume_orderly
    queue_ownership, send_back, pull_kernel, running_info
    member                                              the state that all parts share
    enrolment                                           what is checked before a start
    offsets, listeners, assigned_queues, pulled_batches
    group_calls, process_queue, allocation, worker_pool
    push_config, pull_config, consumer_config           the settings
"""
