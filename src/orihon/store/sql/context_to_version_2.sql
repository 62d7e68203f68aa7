-- From version 1: phases, checkpoints and the answers of people.

CREATE TABLE checkpoint_records (id INTEGER PRIMARY KEY, record TEXT NOT NULL);
