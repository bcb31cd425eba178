"""One journal as a picture: a self-contained HTML page, and a trace for Perfetto.

``report_data`` folds the facts once, ``page`` and ``trace`` write the result.  Only journals are
read, so a run in virtual time and a cluster of processes have the same report.
"""
