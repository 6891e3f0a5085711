-- What the work of earlier generations named as its last checkpoints: JSON, by component and replica.

ALTER TABLE orders ADD COLUMN checkpoints TEXT;
