"""What a person looks at and nothing keeps: a run's page and tables, the operators, what `check` finds, what `bench` times."""
