-- Roles, database and rights. Each query tells what is missing, and psql runs what it tells (\gexec); a second run tells nothing.
-- Ids: P-04, P-06.

-- The owner of the tables; who uses them (a group); the services; the backup, which only reads.
SELECT format('CREATE ROLE %I %s', name, options)
FROM (VALUES ('kit_owner', 'LOGIN'), ('kit_app', 'NOLOGIN'), ('kit_web', 'LOGIN IN ROLE kit_app'),
    ('kit_relay', 'LOGIN IN ROLE kit_app'), ('kit_worker', 'LOGIN IN ROLE kit_app'), ('kit_beat', 'LOGIN IN ROLE kit_app'),
    ('kit_backup', 'LOGIN IN ROLE pg_read_all_data')) AS wanted (name, options)
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name)
\gexec

SELECT format('ALTER ROLE %I NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS', rolname)
FROM pg_roles
WHERE rolname LIKE 'kit\_%' AND (rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls)
\gexec

SELECT 'CREATE DATABASE kit OWNER kit_owner'
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'kit')
\gexec

SELECT 'REVOKE ALL ON DATABASE kit FROM PUBLIC'
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'kit' AND datacl IS NOT NULL
    AND NOT EXISTS (SELECT FROM aclexplode(datacl) WHERE grantee = 0))
\gexec

SELECT format('GRANT CONNECT ON DATABASE kit TO %I', role)
FROM (VALUES ('kit_app'), ('kit_backup')) AS wanted (role)
WHERE NOT EXISTS (SELECT FROM pg_database, aclexplode(datacl) WHERE datname = 'kit'
    AND grantee = (SELECT oid FROM pg_roles WHERE rolname = role) AND privilege_type = 'CONNECT')
\gexec

-- A query that hangs holds a thread of the web process; a lock that is not had soon is not had. A backup writes nothing.
-- The app's own sessions get their limits by its settings, which go before these: these are for whatever else logs in.
SELECT format('ALTER ROLE %I SET %s = %L', role, setting, value)
FROM (VALUES ('kit_web', 'statement_timeout', '10s'), ('kit_web', 'lock_timeout', '3s'),
    ('kit_web', 'idle_in_transaction_session_timeout', '15s'),
    ('kit_relay', 'lock_timeout', '10s'), ('kit_worker', 'lock_timeout', '10s'), ('kit_beat', 'lock_timeout', '10s'),
    ('kit_owner', 'lock_timeout', '2s'),
    ('kit_backup', 'default_transaction_read_only', 'on')) AS wanted (role, setting, value)
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role AND format('%s=%s', setting, value) = ANY (rolconfig))
\gexec
