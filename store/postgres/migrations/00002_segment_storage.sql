-- +goose Up
-- To compress headers, which are ids for the most part, takes longer than to write them. What fits in a page stays in the row.
ALTER TABLE segments ALTER COLUMN header SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160);
