"""Sending: the producer, its attempts, and which brokers it avoids.

Its face: ``Producer`` (producer), ``SendResult`` and ``SendStatus`` (send_result), ``Sending``
(async_send), ``by_hash`` and ``by_random`` (selectors), ``inner_producer`` (send_pipeline).
From the top down; a file imports only what stands in lines below its own:

    producer                                         what applications use
    detector
    send_pipeline                                    the forms of sending
    sync_send, async_send                            attempts, until one settles the send
    send_kernel                                      one attempt
    outgoing_message, send_result, fault_strategy
    latency_faults
    publish_info, selectors
"""
