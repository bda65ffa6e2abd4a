-- Rights inside the database kit; made like database.sql.

SELECT 'REVOKE ALL ON SCHEMA public FROM PUBLIC'
WHERE EXISTS (SELECT FROM pg_namespace, aclexplode(coalesce(nspacl, acldefault('n', nspowner)))
    WHERE nspname = 'public' AND grantee = 0)
\gexec

SELECT 'GRANT USAGE ON SCHEMA public TO kit_app'
WHERE NOT has_schema_privilege('kit_app', 'public', 'USAGE')
\gexec

-- What kit_owner makes from now on, its services may use, and nothing more: no DROP, no ALTER, no TRUNCATE.
SELECT 'ALTER DEFAULT PRIVILEGES FOR ROLE kit_owner IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO kit_app'
WHERE NOT EXISTS (SELECT FROM pg_default_acl, aclexplode(defaclacl) WHERE defaclobjtype = 'r'
    AND defaclrole = 'kit_owner'::regrole AND grantee = 'kit_app'::regrole AND privilege_type = 'DELETE')
\gexec

SELECT 'ALTER DEFAULT PRIVILEGES FOR ROLE kit_owner IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO kit_app'
WHERE NOT EXISTS (SELECT FROM pg_default_acl, aclexplode(defaclacl) WHERE defaclobjtype = 'S'
    AND defaclrole = 'kit_owner'::regrole AND grantee = 'kit_app'::regrole AND privilege_type = 'USAGE')
\gexec

-- What was there before, from a restored dump for example.
SELECT format('GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO kit_app', oid::regclass)
FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relowner = 'kit_owner'::regrole
    AND NOT has_table_privilege('kit_app', oid, 'DELETE')
\gexec

SELECT format('GRANT USAGE, SELECT ON SEQUENCE %s TO kit_app', oid::regclass)
FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relowner = 'kit_owner'::regrole
    -- CASE keeps the order: asked about anything but a sequence, the function fails.
    AND CASE WHEN relkind = 'S' THEN NOT has_sequence_privilege('kit_app', oid, 'USAGE') ELSE false END
\gexec
