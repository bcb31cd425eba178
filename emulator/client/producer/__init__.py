"""Sending: the producer, its attempts, and which brokers it avoids.

Its face: ``Producer`` (producer), ``SendResult`` and ``SendStatus`` (send_result), ``Sending``
(async_send), ``by_hash`` and ``by_chance`` (selectors), ``inner_producer`` (send_pipeline).
"""
