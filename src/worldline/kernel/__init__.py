"""A world model without networks over histories: a learned kernel over the steps of a log."""
