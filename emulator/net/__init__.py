"""The shell: it moves bytes, waits and retries for values that never do.

One server shell and one client shell serve every role, on TCP and on a virtual
network, because both stand on the same connection (``connection``) and the same port
(``transport``).
"""
