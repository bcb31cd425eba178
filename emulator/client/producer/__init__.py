"""Sending: the producer, its attempts, and the brokers that it avoids.

Public names: ``Producer`` (producer), ``TransactionProducer`` (transaction_producer),
``LocalTransactionState``, ``TransactionListener`` and ``TransactionSendResult`` (transactions),
``SendResult`` and ``SendStatus`` (send_kernel), ``Sending``
(send_attempts), ``by_hash`` and ``by_random`` (publish_info), ``inner_producer`` (send_pipeline).
From the top down; a file imports only from lines below its own:

    transaction_producer                             the class for transactional messages
    transactions                                     half message, local transaction, end, check
    producer                                         the class that applications use
    send_pipeline                                    the forms of sending
    send_attempts                                    the attempts of one send
    send_kernel                                      one attempt
    fault_strategy
    publish_info, outgoing_message
"""
