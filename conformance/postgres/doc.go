// Package postgres tests what several gateways on one PostgreSQL promise: the database's fail-over under load, a database that cannot be used
// or goes away in several ways, two gateways at work on the same partitions, many that start at once or do not hear of each other, gateways
// whose clocks are wrong, and tables that do not grow without end. Gateways are real processes wherever a test kills something.
//
//	LEASEHOLD_REPLICAS_TIME   how long the load of TestTwoGateways runs (default 3s)
//	LEASEHOLD_STEADY_MESSAGES how many messages go through the queue of TestSteadyQueue (default 100000)
//	LEASEHOLD_BINARY          a leasehold binary to run instead of building one
package postgres
