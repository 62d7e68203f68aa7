"""People in the loop: their answers and what follows from them, what they are told, the archives of phases."""
