"""The controller: it elects the master of each broker name.  A role of its own, as in 5.x."""
