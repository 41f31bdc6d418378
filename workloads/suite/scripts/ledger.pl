# SPDX-License-Identifier: GPL-2.0-or-later
# Read the lines of a bank's ledger by a pattern, keep each as a hash in an array
# of its account, and see which transfers have come to the other account, and
# what was the least that each account had.  Hashes, and texts in them, lie
# anywhere on the heap.
use strict;
use warnings;

my %options = ( '--accounts' => 20000, '--transfers' => 100000 );
while ( defined( my $option = shift ) ) {
	if ( $option eq '--help' ) {
		print "usage: ledger.pl [--accounts N] [--transfers N]\n",
			"  --accounts N   of the bank (20000)\n",
			"  --transfers N  most of which have two lines (100000)\n";
		exit 0;
	}
	if ( !exists $options{$option} ) {
		print STDERR "ledger.pl: unknown option: $option\n";
		exit 2;
	}
	my $value = shift;
	if ( !defined $value || $value !~ /^[1-9][0-9]*$/ ) {
		print STDERR "ledger.pl: $option needs a number of at least 1\n";
		exit 2;
	}
	$options{$option} = $value;
}

# A product below 2^53: the same everywhere.
my $state = 1;

sub below {
	my ($n) = @_;
	$state = $state * 48271 % 2147483647;
	return int( $state / 2147483647 * $n );
}

# A line for the debit, and one for the credit, some days later, unless it was lost.
sub ledger {
	my @lines;
	for my $number ( 1 .. $options{'--transfers'} ) {
		my ( $from, $to ) = ( below( $options{'--accounts'} ), below( $options{'--accounts'} ) );
		my ( $day, $cents ) = ( below(360), 1 + below(500000) );
		my $reference = sprintf 'R%08X-%d', below(2147483647), $number;
		my $amount = sprintf '%d.%02d', int( $cents / 100 ), $cents % 100;
		push @lines, sprintf 'day %03d account %d: -%s EUR ref %s "to account %d"',
			$day, $from, $amount, $reference, $to;
		next if !below(10);
		push @lines, sprintf 'day %03d account %d: +%s EUR ref %s "from account %d"',
			$day + below(5), $to, $amount, $reference, $from;
	}
	return @lines;
}

my ( %accounts, %paid );
for my $line ( ledger() ) {
	$line =~ /^day (\d+) account (\d+): ([+-])(\d+)\.(\d\d) EUR ref (\S+) "(.*)"$/ or next;
	my $entry = {
		day       => $1,
		cents     => $3 eq '-' ? -( $4 * 100 + $5 ) : $4 * 100 + $5,
		reference => $6,
		note      => $7,
	};
	push @{ $accounts{$2} }, $entry;
	$paid{ $entry->{reference} } = $entry if $entry->{cents} < 0;
}

# Remainders keep it below 2^53, too.
my $checksum = 0;
for my $account ( sort { $a <=> $b } keys %accounts ) {
	my @entries = sort { $a->{day} <=> $b->{day} || $a->{reference} cmp $b->{reference}
			|| $a->{cents} <=> $b->{cents} } @{ $accounts{$account} };
	my ( $balance, $least, $late ) = ( 0, 0, 0 );
	for my $entry (@entries) {
		$balance += $entry->{cents};
		$least = $balance if $balance < $least;
		next if $entry->{cents} < 0;
		my $other = delete $paid{ $entry->{reference} };
		$late += $entry->{day} - $other->{day} + length $entry->{note};
	}
	$checksum = ( $checksum * 31 + $balance - $least + 1000003 * $late ) % 1099511627689;
}

# What is left was lost on its way.
my $lost = 0;
$lost -= $paid{$_}{cents} for keys %paid;
$checksum = ( $checksum * 31 + $lost ) % 1099511627689;
printf "checksum %016x\n", $checksum;
