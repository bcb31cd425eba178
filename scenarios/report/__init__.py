"""One journal as a picture: an HTML page that stands alone, and a trace for Perfetto.

``story`` folds the facts once into what can be drawn, ``page`` and ``trace`` write it.  Only
journals are read, so a run in virtual time and a cluster of processes look alike.
"""
