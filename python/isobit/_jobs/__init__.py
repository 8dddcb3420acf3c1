"""Several processes that train one job: who starts them (`python -m isobit launch`), and what they agree on."""
