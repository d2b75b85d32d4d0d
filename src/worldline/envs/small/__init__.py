"""Small text worlds, one file each: rules of a page, chance where the rules want it, scripted policies of all sorts.

They are played like every other environment. `bench worlds` judges estimators in them.
"""
