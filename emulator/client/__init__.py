"""What runs inside an application: routes, producers, consumers, one instance that they share."""
