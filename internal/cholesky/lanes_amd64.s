#include "textflag.h"

// The arguments of a kernel.
#define ARGUMENTS \
	MOVQ x+0(FP), DI; \
	MOVQ index+8(FP), SI; \
	MOVQ value+16(FP), DX; \
	MOVQ count+24(FP), R8; \
	MOVQ v+32(FP), R9; \
	XORQ CX, CX

// func scatterFMA(x *float64, index *int32, value *float64, count int, v *float64)
TEXT ·scatterFMA(SB), NOSPLIT, $0-40
	ARGUMENTS
	VMOVUPD (R9), Y0

entry:
	MOVLQSX (SI)(CX*4), AX
	SHLQ $5, AX
	VBROADCASTSD (DX)(CX*8), Y2
	VMOVUPD (DI)(AX*1), Y3
	VFNMADD231PD Y0, Y2, Y3
	VMOVUPD Y3, (DI)(AX*1)
	INCQ CX
	CMPQ CX, R8
	JLT  entry
	VZEROUPPER
	RET

// func gatherFMA(x *float64, index *int32, value *float64, count int, v *float64)
TEXT ·gatherFMA(SB), NOSPLIT, $0-40
	ARGUMENTS
	VMOVUPD (R9), Y0
	VXORPD Y5, Y5, Y5
	MOVQ R8, R10
	SUBQ $1, R10
	CMPQ CX, R10
	JGE  odd

pair:
	MOVLQSX (SI)(CX*4), AX
	MOVLQSX 4(SI)(CX*4), BX
	SHLQ $5, AX
	SHLQ $5, BX
	VBROADCASTSD (DX)(CX*8), Y2
	VBROADCASTSD 8(DX)(CX*8), Y3
	VFNMADD231PD (DI)(AX*1), Y2, Y0
	VFNMADD231PD (DI)(BX*1), Y3, Y5
	ADDQ $2, CX
	CMPQ CX, R10
	JLT  pair

odd:
	CMPQ CX, R8
	JGE  done
	MOVLQSX (SI)(CX*4), AX
	SHLQ $5, AX
	VBROADCASTSD (DX)(CX*8), Y2
	VFNMADD231PD (DI)(AX*1), Y2, Y0

done:
	VADDPD Y5, Y0, Y0
	VMOVUPD Y0, (R9)
	VZEROUPPER
	RET

// v of a kernel of 3 x 3 blocks in Y0, Y1 and Y2.
#define LOAD3 \
	VMOVUPD (R9), Y0; \
	VMOVUPD 32(R9), Y1; \
	VMOVUPD 64(R9), Y2

// a -= l b for an entry l of the block.
#define LESS(at, l, a, b) \
	VBROADCASTSD at(DX), l; \
	VFNMADD231PD b, l, a

// Row r of a block: x_r -= l v.
#define SCATTER3(row, at, a) \
	VMOVUPD (row)(DI)(AX*1), a; \
	LESS(at, Y8, a, Y0); \
	LESS((at+8), Y9, a, Y1); \
	LESS((at+16), Y10, a, Y2); \
	VMOVUPD a, (row)(DI)(AX*1)

// Row r of a block: v -= l* x_r, in accumulators of its own.
#define GATHER3(row, at, a, b, c) \
	VMOVUPD (row)(DI)(AX*1), Y9; \
	LESS(at, Y10, a, Y9); \
	LESS((at+8), Y11, b, Y9); \
	LESS((at+16), Y12, c, Y9)

// func scatterFMA3(x *float64, index *int32, value *float64, count int, v *float64)
TEXT ·scatterFMA3(SB), NOSPLIT, $0-40
	ARGUMENTS
	LOAD3

entry:
	MOVLQSX (SI)(CX*4), AX
	IMULQ   $96, AX
	SCATTER3(0, 0, Y5)
	SCATTER3(32, 24, Y6)
	SCATTER3(64, 48, Y7)
	ADDQ $72, DX
	INCQ CX
	CMPQ CX, R8
	JLT  entry
	VZEROUPPER
	RET

// func gatherFMA3(x *float64, index *int32, value *float64, count int, v *float64)
TEXT ·gatherFMA3(SB), NOSPLIT, $0-40
	ARGUMENTS
	LOAD3
	VXORPD Y3, Y3, Y3
	VXORPD Y4, Y4, Y4
	VXORPD Y5, Y5, Y5
	VXORPD Y6, Y6, Y6
	VXORPD Y7, Y7, Y7
	VXORPD Y8, Y8, Y8

entry:
	MOVLQSX (SI)(CX*4), AX
	IMULQ   $96, AX
	GATHER3(0, 0, Y0, Y1, Y2)
	GATHER3(32, 24, Y3, Y4, Y5)
	GATHER3(64, 48, Y6, Y7, Y8)
	ADDQ $72, DX
	INCQ CX
	CMPQ CX, R8
	JLT  entry
	VADDPD Y3, Y0, Y0
	VADDPD Y4, Y1, Y1
	VADDPD Y5, Y2, Y2
	VADDPD Y6, Y0, Y0
	VADDPD Y7, Y1, Y1
	VADDPD Y8, Y2, Y2
	VMOVUPD Y0, (R9)
	VMOVUPD Y1, 32(R9)
	VMOVUPD Y2, 64(R9)
	VZEROUPPER
	RET

// func widenFMA(to *float64, from *float32, count int)
TEXT ·widenFMA(SB), NOSPLIT, $0-24
	MOVQ to+0(FP), DI
	MOVQ from+8(FP), SI
	MOVQ count+16(FP), R8
	XORQ CX, CX
	SUBQ $4, R8

four:
	VCVTPS2PD (SI)(CX*4), Y0
	VMOVUPD Y0, (DI)(CX*8)
	ADDQ $4, CX
	CMPQ CX, R8
	JLE  four

	// The last four, of which some are done.
	VCVTPS2PD (SI)(R8*4), Y0
	VMOVUPD Y0, (DI)(R8*8)
	VZEROUPPER
	RET
