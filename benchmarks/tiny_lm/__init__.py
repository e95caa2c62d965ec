"""Real continual-pre-training curves from tiny language models.

The trainer behind cptjax's embedded data set.

``corpus`` fetches and splits the text, ``model`` is the transformer and its optimiser, ``grid``
lists the runs as data, ``train`` runs them, and ``collect`` merges the finished curves with their
manifests and a data card. One command makes them all: ``python -m benchmarks.tiny_lm``.
"""
