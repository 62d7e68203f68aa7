-- A task that was taken over after the catalogue was copied and before its folder was.
UPDATE tasks SET epoch = :epoch WHERE uuid = :uuid AND epoch < :epoch;
