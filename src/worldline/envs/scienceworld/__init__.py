"""ScienceWorld: the Java simulator of the `scienceworld` package behind the common protocol."""
