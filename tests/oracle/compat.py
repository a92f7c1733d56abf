"""What Oracle has and PostgreSQL lacks: types that can't be compared, functions, views of the catalogue.

It goes into a schema of its own, behind the user's in the search path.
"""

SCHEMA = "oracle_compat"

SETUP = r"""
CREATE SCHEMA oracle_compat;
SET search_path = oracle_compat;

-- LOBs: stored as text and bytes, but nothing compares, sorts or indexes them, as in Oracle.
CREATE TYPE clob;
CREATE FUNCTION clob_in(cstring) RETURNS clob AS 'textin' LANGUAGE internal IMMUTABLE STRICT;
CREATE FUNCTION clob_out(clob) RETURNS cstring AS 'textout' LANGUAGE internal IMMUTABLE STRICT;
CREATE TYPE clob (INPUT = clob_in, OUTPUT = clob_out, LIKE = text);
CREATE CAST (text AS clob) WITHOUT FUNCTION AS ASSIGNMENT;
CREATE CAST (varchar AS clob) WITHOUT FUNCTION AS ASSIGNMENT;
CREATE CAST (clob AS text) WITHOUT FUNCTION;
CREATE TYPE blob;
CREATE FUNCTION blob_in(cstring) RETURNS blob AS 'byteain' LANGUAGE internal IMMUTABLE STRICT;
CREATE FUNCTION blob_out(blob) RETURNS cstring AS 'byteaout' LANGUAGE internal IMMUTABLE STRICT;
CREATE TYPE blob (INPUT = blob_in, OUTPUT = blob_out, LIKE = bytea);
CREATE CAST (bytea AS blob) WITHOUT FUNCTION AS ASSIGNMENT;
CREATE CAST (blob AS bytea) WITHOUT FUNCTION;

CREATE FUNCTION length(clob) RETURNS integer IMMUTABLE STRICT LANGUAGE sql AS 'SELECT char_length($1::text)';
CREATE FUNCTION oracle_instr(text, text) RETURNS numeric IMMUTABLE STRICT LANGUAGE sql AS 'SELECT strpos($1, $2)';
CREATE FUNCTION oracle_instr(clob, text) RETURNS numeric IMMUTABLE STRICT LANGUAGE sql
  AS 'SELECT strpos($1::text, $2)';
CREATE FUNCTION oracle_instr(clob, clob) RETURNS numeric IMMUTABLE STRICT LANGUAGE sql
  AS 'SELECT strpos($1::text, $2::text)';
CREATE FUNCTION oracle_substr(text, numeric) RETURNS text IMMUTABLE STRICT LANGUAGE sql
  AS 'SELECT NULLIF(substr($1, $2::integer), '''')';
CREATE FUNCTION oracle_substr(text, numeric, numeric) RETURNS text IMMUTABLE STRICT LANGUAGE sql
  AS 'SELECT NULLIF(substr($1, $2::integer, $3::integer), '''')';
CREATE FUNCTION oracle_utf16(text) RETURNS integer IMMUTABLE STRICT LANGUAGE sql
  AS $$SELECT 2 * char_length($1) - char_length(regexp_replace($1, '[\U00010000-\U0010FFFF]', '', 'g'))$$;
CREATE FUNCTION nvl(anyelement, anyelement) RETURNS anyelement IMMUTABLE LANGUAGE sql AS 'SELECT COALESCE($1, $2)';
CREATE FUNCTION lengthb(text) RETURNS integer IMMUTABLE STRICT LANGUAGE sql AS 'SELECT octet_length($1)';
CREATE FUNCTION hextoraw(text) RETURNS bytea IMMUTABLE STRICT LANGUAGE sql AS $$SELECT decode($1, 'hex')$$;
CREATE FUNCTION rawtohex(bytea) RETURNS text IMMUTABLE STRICT LANGUAGE sql AS $$SELECT upper(encode($1, 'hex'))$$;
CREATE FUNCTION sys_guid() RETURNS bytea VOLATILE LANGUAGE sql AS 'SELECT uuid_send(gen_random_uuid())';
CREATE EXTENSION vector;
CREATE FUNCTION to_vector(text) RETURNS vector IMMUTABLE STRICT LANGUAGE sql AS 'SELECT $1::vector';
CREATE FUNCTION to_clob(text) RETURNS clob IMMUTABLE STRICT LANGUAGE sql AS 'SELECT $1::clob';
CREATE FUNCTION sys_context(text, text) RETURNS text STABLE STRICT LANGUAGE sql AS $$
  SELECT CASE upper($2) WHEN 'CURRENT_SCHEMA' THEN upper(current_schema()) WHEN 'SESSION_USER' THEN upper(session_user)
  END$$;

-- The words of the query, all of them, among those of texts below the path. Words that are never indexed are left
-- out of a query, and one that has no others finds nothing.
CREATE FUNCTION json_textcontains(jsonb, text, text) RETURNS boolean STABLE STRICT LANGUAGE sql AS $$
  SELECT cardinality(q.wanted) > 0 AND q.wanted <@ COALESCE((
    SELECT array_agg(word) FROM jsonb_path_query($1, ($2 || '.**')::jsonpath) found,
      regexp_split_to_table(lower(found #>> '{}'), '[\W_]+') word WHERE jsonb_typeof(found) = 'string'), '{}')
  FROM (SELECT array_agg(word) AS wanted FROM regexp_split_to_table($3, ' AND ') part,
    lower(trim(part, '{}')) word WHERE word NOT IN ('the', 'and', 'with', 'for', 'not', 'you', 'this')) q$$;

-- Distances, as functions that disappear from a plan: so an index is used for them.
CREATE FUNCTION oracle_cosine(vector, vector) RETURNS float8 IMMUTABLE LANGUAGE sql AS 'SELECT $1 <=> $2';
CREATE FUNCTION oracle_dot(vector, vector) RETURNS float8 IMMUTABLE LANGUAGE sql AS 'SELECT $1 <#> $2';
CREATE FUNCTION oracle_euclidean(vector, vector) RETURNS float8 IMMUTABLE LANGUAGE sql AS 'SELECT $1 <-> $2';
CREATE FUNCTION oracle_manhattan(vector, vector) RETURNS float8 IMMUTABLE LANGUAGE sql AS 'SELECT $1 <+> $2';
CREATE FUNCTION oracle_hamming(vector, vector) RETURNS float8 IMMUTABLE LANGUAGE sql AS $$
  SELECT count(*)::float8 FROM unnest($1::real[], $2::real[]) AS pairs (a, b) WHERE a <> b$$;

CREATE TABLE dual (dummy text);
INSERT INTO dual VALUES ('X');
CREATE VIEW user_tables AS SELECT upper(c.relname::text) AS table_name FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname = current_schema();
CREATE VIEW all_tables AS SELECT upper(n.nspname::text) AS owner, upper(c.relname::text) AS table_name FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname NOT LIKE 'pg_%'
  AND (pg_has_role(c.relowner, 'USAGE') OR has_table_privilege(c.oid, 'SELECT, INSERT, UPDATE, DELETE'));
CREATE VIEW all_tab_columns AS SELECT upper(n.nspname::text) AS owner, upper(c.relname::text) AS table_name,
  upper(a.attname::text) AS column_name, split_part(col_description(c.oid, a.attnum), ' ', 2) AS data_type
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND n.nspname NOT LIKE 'pg_%';
CREATE VIEW nls_database_parameters (parameter, value) AS VALUES ('NLS_CHARACTERSET', 'AL32UTF8');
CREATE VIEW nls_session_parameters (parameter, value) AS VALUES ('NLS_SORT', 'BINARY'), ('NLS_COMP', 'BINARY');

GRANT USAGE ON SCHEMA oracle_compat TO PUBLIC;
GRANT SELECT ON ALL TABLES IN SCHEMA oracle_compat TO PUBLIC;
"""
